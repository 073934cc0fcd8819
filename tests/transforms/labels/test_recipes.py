"""A recipe names the versions of the libraries on which a shard depends, and of no others."""

from __future__ import annotations

from transforms.labels.shards import (
    HEIC_LIBRARIES,
    Libraries,
    RecipeMaker,
    Recipes,
    changed_libraries,
    distribution_version,
    recorded_versions,
)

HEIC_VERSION = distribution_version("pillow-heif")


def recipes(libraries: Libraries) -> Recipes:
    return RecipeMaker("digest", libraries).recipes("train-00000-of-00001.tfrecord", [])


def test_only_shards_with_a_heic_depend_on_its_decoder() -> None:
    without, both = (
        recipes(Libraries(changed=("numpy",), heic=heic)) for heic in ((), HEIC_LIBRARIES)
    )
    assert both[:2] == without[:2] and len(set(both)) == 3
    assert without.from_heic == without.changed
    # A decoder that is not installed is none.
    assert recipes(Libraries(changed=("numpy",), heic=("no-heif",))) == without


def test_the_index_of_a_shard_names_them() -> None:
    maker = RecipeMaker("digest", Libraries(changed=("numpy",), heic=HEIC_LIBRARIES))
    numpy = f"numpy {distribution_version('numpy')}"
    assert maker.versions(is_changed=False, has_heic=False) == ""
    assert maker.versions(is_changed=True, has_heic=False) == numpy
    heic = maker.versions(is_changed=True, has_heic=True)
    assert heic == f"{numpy}\npillow-heif {HEIC_VERSION}"


def test_a_manifest_names_them() -> None:
    assert set(recorded_versions(["numpy"], has_heic=False)) == {"numpy"}
    versions = recorded_versions(["numpy"], has_heic=True)
    assert versions["pillow-heif"] == HEIC_VERSION
    assert changed_libraries({"versions": versions}) == []
    versions["pillow-heif"] = "0.1"
    expected = f"pillow-heif 0.1, here {HEIC_VERSION}"
    assert changed_libraries({"versions": versions}) == [expected]
