"""What each flag about a dataset's name, card and Croissant changes."""

from __future__ import annotations

import json
from typing import Any

from tests.pipeline.commands import digests
from tests.pipeline.option_rows import Made, Row


def _said(made: Made) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """The card, and the content of `croissant.json` and of `dataset_info.json`."""
    folder = made.dataset.folder
    croissant, info = (
        json.loads((folder / name).read_text("utf-8"))
        for name in ("croissant.json", "dataset_info.json")
    )
    return (folder / "README.md").read_text("utf-8"), croissant, info


def _name(without: Made, made: Made) -> None:
    """Records, and all other files, are those of a dataset without a name."""
    others = {"manifest.json": "", "dataset_info.json": "", "report.html": ""}
    one, other = ({**digests(each.dataset.folder), **others} for each in (without, made))
    assert other.keys() - one.keys() == {"README.md", "croissant.json"}
    assert one.items() <= other.items()
    assert _said(made)[2]["name"] == "pets"


def _dataset_version(without: Made, made: Made) -> None:
    for each, version in ((without, "1.0.0"), (made, "1.2.0")):
        card, croissant, info = _said(each)
        assert f"- Version: {version}" in card
        assert croissant["version"] == info["version"] == version


def _description(without: Made, made: Made) -> None:
    card, croissant, info = _said(made)
    assert croissant["description"] == info["description"] == "Pets, 애완동물."
    assert "\n\nPets, 애완동물.\n\n" in card
    assert "description" not in _said(without)[2]


def _citation(without: Made, made: Made) -> None:
    card, croissant, info = _said(made)
    assert croissant["citeAs"] == info["citation"] == "@misc{pets}"
    assert "```bibtex\n@misc{pets}\n```" in card
    assert "citeAs" not in _said(without)[1]


def _license(without: Made, made: Made) -> None:
    card, croissant, info = _said(made)
    assert croissant["license"] == "https://spdx.org/licenses/CC-BY-4.0.html"
    assert info["redistributionInfo"] == {"license": "CC-BY-4.0"}
    assert "\nlicense: cc-by-4.0\n" in card
    assert "license:" not in _said(without)[0]


def _homepage(without: Made, made: Made) -> None:
    card, croissant, info = _said(made)
    assert croissant["url"] == "https://example.org/pets"
    assert info["location"] == {"urls": ["https://example.org/pets"]}
    assert "<https://example.org/pets>" in card
    assert "url" not in _said(without)[1]


def _croissant(without: Made, made: Made) -> None:
    assert _said(made)[1]["creator"] == {"@type": "sc:Person", "name": "Ann Lee"}
    assert "croissant.json lacks license (--license), url (--homepage), creator" in without.ran.out


NAMED = {"name": "pets"}
CARD_ROWS = {
    "--name": Row("pets", _name),
    "--dataset_version": Row("1.2.0", _dataset_version, NAMED),
    "--description": Row("Pets, 애완동물.", _description, NAMED),
    "--citation": Row("@misc{pets}", _citation, NAMED),
    "--license": Row("CC-BY-4.0", _license, NAMED),
    "--homepage": Row("https://example.org/pets", _homepage, NAMED),
    "--croissant": Row('{"creator": "Ann Lee"}', _croissant, NAMED),
}
