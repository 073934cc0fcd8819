"""The table of options, and the effect of each flag."""

from __future__ import annotations

import argparse
import contextlib
import io
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf
from PIL import Image

import pipeline.run.progress
from pipeline.convert import main
from pipeline.errors import UsageError
from pipeline.options.option_table import GROUPS, OPTIONS
from pipeline.options.parser import is_given, make_parser, parse_flags
from tests.conftest import draw
from tests.images import chunk, picture, saved
from tests.marks import rest_slow
from tests.models import efficientnet, saved_to, small_model
from tests.pipeline.commands import Dataset, convert
from tests.pipeline.option_effects import ROWS
from tests.pipeline.option_rows import Made
from transforms.core.option import Conflict, Need, Option, check_combinations, declared
from transforms.examples.tfrecord import framed

# The table of options: its entries agree with each other, and its rules are applied.

# A value for each option that has no closed set of them, other than its default.
VALUES = {
    "csv_delimiter": ";",
    "dataset_version": "1.2.0",
    "file_name": "{shard}.tfrec",
    "homepage": "https://example.org/pets",
    "label_regex": "(x)",
    "num_shards": "3",
    "shard_size": "2MB",
    "splits": "train=0.5,test=0.5",
}


def parsed(**values: Any) -> argparse.Namespace:
    words = [
        f"--{name}" if value is True else f"--{name}={value}" for name, value in values.items()
    ]
    return make_parser("convert").parse_args(["--output=o", *words])


def value_of(option: Option) -> Any:
    """A value that is not the default."""
    others = [choice for choice in option.choices if choice != option.default]
    return True if option.is_switch else VALUES.get(option.name) or (others or ["x"])[0]


def conflicts() -> Iterator[tuple[Option, Conflict, Any]]:
    for option in OPTIONS.values():
        for conflict in option.conflicts:
            other = OPTIONS[conflict.name]
            for value in conflict.values or [value_of(other)]:
                yield option, conflict, value


def needs() -> Iterator[tuple[Option, Need, Any]]:
    for option in OPTIONS.values():
        for need in option.needs:
            for value in need.values or [value_of(option)]:
                yield option, need, value


def test_no_name_stands_twice() -> None:
    flags = [
        flag for group in GROUPS for option in declared(group).values() for flag in option.flags
    ]
    assert len(flags) == len(set(flags))


@pytest.mark.parametrize("option", OPTIONS.values(), ids=lambda option: option.name)
def test_an_option_agrees_with_itself(option: Option) -> None:
    assert option.is_switch or option.choices or option.metavar
    assert not (option.choices and option.metavar)
    assert option.help.endswith("...") or not option.help.endswith(".")
    assert not is_given(parsed(), option.name) or option.is_required
    for conflict in option.conflicts:
        assert set(conflict.values) <= set(OPTIONS[conflict.name].choices)
    for need in option.needs:
        assert need.name in OPTIONS and set(need.values) <= set(option.choices)


@pytest.mark.parametrize(("option", "conflict", "value"), list(conflicts()))
def test_a_conflict_is_refused(option: Option, conflict: Conflict, value: Any) -> None:
    words = {option.name: value_of(option), conflict.name: value}
    with pytest.raises(
        ValueError, match=f"--{option.name}.* cannot be used with --{conflict.name}"
    ):
        check_combinations(OPTIONS, vars(parsed(**words)))


@pytest.mark.parametrize(("option", "need", "value"), list(needs()))
def test_a_need_is_refused(option: Option, need: Need, value: Any) -> None:
    words = {option.name: value}
    with pytest.raises(ValueError, match=f"--{option.name}.* needs {need.flag}"):
        check_combinations(OPTIONS, vars(parsed(**words)))
    check_combinations(OPTIONS, vars(parsed(**words, **{need.name: VALUES.get(need.name, "x")})))


# Every flag does something: each has a row in which it changes what comes out.

# The golden conversions show of all others that they change the records; --max_rejected,
# --overwrite and --progress have quick tests of their own, and no test does without --output.
QUICK = ["--allow_outside", "--config", "--quarantine", "--quiet", "--strict"]
FLAGS = rest_slow([*QUICK, *(flag for flag in ROWS if flag not in QUICK)], len(QUICK))


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four photos, labels for them in several files, and images that a default rejects."""
    folder = tmp_path_factory.mktemp("inputs")
    stems = ["cat-0", "cat-1", "dog-0", "dog-1"]
    for at, stem in enumerate(stems):
        draw(folder / "photos" / stem[:3] / f"{stem}.jpg", seed=at)
        (folder / "masks").mkdir(exist_ok=True)
        (folder / "masks" / f"{stem}.png").write_bytes(saved(picture("L", 12, 16), "PNG"))
    letters = list(zip(stems, "abcd", strict=True))
    lines = {
        "letters.csv": ["id,label", *(",".join(row) for row in letters)],
        "columns.csv": [
            "id,other,label,kind",
            *(
                f"{stem},{other},{letter},x"
                for (stem, letter), other in zip(letters, reversed(stems), strict=True)
            ),
        ],
        "places.csv": [
            "id,label,who,set",
            *(f"{stem},a,{stem[:3]},{'TEST' if stem[4] == '0' else 'dev'}" for stem in stems),
        ],
        "names.csv": ["id,label", *(f"{stem}.jpg,{letter}" for stem, letter in letters)],
        "tildes.csv": ["id~label", *("~".join(row) for row in letters)],
        # All rows whose cells show how they spell keys; one more that names its image itself.
        "old.csv": [
            "id,label",
            *[f"/old/{stem[:3]}/{stem}.jpg,{letter}" for stem, letter in letters * 5],
            "cat/cat-1.jpg,b",
        ],
        "korean.csv": ["id,label", *(f"{stem},고양이" for stem in stems)],
        "numbers.csv": ["id,label", "cat-0,7", "cat-1,100000", "dog-0,10", "dog-1,nan"],
        "classes.txt": ["dog", "cat"],
        "dogs.txt": ["dog"],
        "keys.txt": ["dog/dog-0.jpg", "cat/cat-1.jpg"],
        "seed.yaml": ["seed: 5"],
        "many.csv": ["id,label", "cat-0,a", "cat-1,b", "dog-0,a|b", "dog-1,b"],
        "many.yaml": ["features: {image: image.bytes, classes: label.ids}"],
        "two.csv": [
            "id,label,x1,y1,x2,y2,a,b,c,d",
            *(f"{stem},x,0,0,1,.5,.5,.5,1,1" for stem in stems),
        ],
        "side.csv": ["id,label,x1,y1,x2,y2", "turned,x,0,0,0.25,1"],
        "boxes.csv": ["id,label,xmin,xmax,ymin,ymax", *(f"{stem},x,0,1,0,1" for stem in stems)],
    }
    left, right = ((folder / f"photos/cat/cat-{at}.jpg").read_bytes() for at in (0, 1))
    record = tf.train.Example()
    for name, value in {"left": left, "right": right, "kind": b"x"}.items():
        record.features.feature[name].bytes_list.value.append(value)
    (folder / "two.tfrecord").write_bytes(framed(record.SerializeToString()))
    for name, content in lines.items():
        encoding = "cp949" if name == "korean.csv" else "utf-8"
        (folder / name).write_text("\n".join(content), encoding)
    draw(folder / "empty" / "cat" / "good.jpg")
    for name in ("one", "other"):
        draw(folder / "equal" / "cat" / f"{name}.jpg")
    (folder / "empty" / "cat" / "empty.jpg").touch()
    rows = "image_uri,label\nphotos/cat/cat-0.jpg,cat\n/nowhere/1.jpg,cat\n"
    (folder / "outside.csv").write_text(rows)
    (folder / "large").mkdir()
    for seed in range(3):
        large = saved(picture("RGB", 520, 520, seed=seed), "PNG", compress_level=0)
        (folder / "large" / f"{seed}.png").write_bytes(large)
    exif = Image.Exif()
    exif[0x0112], exif[0x013B] = 6, "Ann"
    (folder / "turned" / "cat").mkdir(parents=True)
    turned = saved(picture("RGB", 12, 16), "JPEG", exif=exif)
    (folder / "turned" / "cat" / "turned.jpg").write_bytes(turned)
    # The pixels are missing: only the header is right.
    header = bytes.fromhex("00000002000000020802000000")
    png = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", b"cut") + chunk(b"IEND")
    (folder / "cut" / "cat").mkdir(parents=True)
    (folder / "cut" / "cat" / "cut.png").write_bytes(png)
    return folder


@pytest.fixture
def fast_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    """Progress lines every few milliseconds."""
    monkeypatch.setattr(pipeline.run.progress, "_LINE_SECONDS", 0.001)


@pytest.fixture(scope="module")
def plain(inputs: Path, tmp_path_factory: pytest.TempPathFactory) -> Made:
    """The photos, converted without any further flag."""
    return run(inputs, tmp_path_factory.mktemp("plain"), {})


def run(inputs: Path, out: Path, flags: Mapping[str, Any]) -> Made:
    """Runs `convert` with these flags instead of some valid ones."""
    right = {"images": "{in}/photos/*/*.jpg", "output": "{out}/dataset"}
    filled = {
        name: value.replace("{in}", str(inputs)).replace("{out}", str(out))
        if isinstance(value, str)
        else value
        for name, value in {**right, **flags}.items()
    }
    return Made(convert(**filled), Dataset(Path(filled["output"])))


@pytest.mark.usefixtures("fast_lines")
@pytest.mark.parametrize("flag", FLAGS)
def test_a_flag_has_its_effect(flag: str, inputs: Path, plain: Made, tmp_path: Path) -> None:
    row, name = ROWS[flag], flag.removeprefix("--")
    if "embedding" in row.others.values():
        saved_to(inputs / "small.keras", small_model().save)
    if flag == "--model_weights":
        saved_to(inputs / "b0.weights.h5", efficientnet().save_weights)
    if flag in ("--reuse", "--holdout"):
        assert run(inputs, tmp_path, {"output": "{out}/base"}).ran.code == 0
    if flag == "--overwrite":
        assert run(inputs, tmp_path, {"output": "{out}/finished"}).ran.code == 0
    first = {**row.others, name: row.before}
    if row.before is None:
        del first[name]
    second = {**row.others, name: row.value}
    if "output" not in second:
        first["output"], second["output"] = "{out}/first", "{out}/second"
    without = plain if first == {"output": "{out}/first"} else run(inputs, tmp_path, first)
    made = run(inputs, tmp_path, second)
    assert made.ran.code == 0, made.ran.err
    row.effect(without, made)


def _flags() -> Iterator[str]:
    for action in make_parser("convert")._actions:
        yield next(flag for flag in action.option_strings if flag.startswith("--"))


def test_every_flag_has_a_row() -> None:
    assert sorted(_flags()) == sorted([*ROWS, "--help", "--version"])


@pytest.mark.parametrize("words", [["--version", "1.2.0"], ["--version=1.2.0"]])
def test_a_version_with_a_value_is_that_of_the_dataset(words: list[str]) -> None:
    given = ["--output=o", "--images=i", "--name=pets"]
    assert parse_flags("convert", [*words, *given]) == parse_flags(
        "convert", ["--dataset_version=1.2.0", *given]
    )


@pytest.mark.parametrize(
    ("words", "flags"),
    [
        ("i o", "--images=i --output=o"),
        ("i l o", "--images=i --labels=l --output=o"),
        ("i l --output=o", "--images=i --labels=l --output=o"),
        ("l o --images=i", "--images=i --labels=l --output=o"),
        ("o --images=i --num_shards 3", "--images=i --output=o --num_shards=3"),
        ("~/i=1/*.jpg ~/o --model=~/m", "--images=/me/i=1/*.jpg --output=/me/o --model=/me/m"),
        ("~you/i ~", "--images=~you/i --output=~"),
    ],
)
def test_first_words_are_places(words: str, flags: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/me")
    assert parse_flags("convert", words.split()) == parse_flags("convert", flags.split())


def test_plan_has_the_flags_of_convert() -> None:
    described = [
        [(action.option_strings, action.default, action.help) for action in parser._actions]
        for parser in (make_parser("convert"), make_parser("plan"))
    ]
    assert described[0] == described[1][:-1] and described[1][-1][0] == ["--json"]


def helped(*words: str) -> str:
    """What `--help` prints."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), pytest.raises(SystemExit) as ended:
        main(["--help", *words])
    assert ended.value.code == 0
    assert out.getvalue().startswith("usage: python -m pipeline.convert")
    return out.getvalue()


def test_help_has_few_flags_and_topics_the_others() -> None:
    def flags(text: str) -> set[str]:
        return set(re.findall(r"^  (?:-\w, )?(--\w+)", text, re.MULTILINE)) - {
            "--help",
            "--version",
        }

    shown = helped()
    assert len(flags(shown)) == 10 and len(shown.splitlines()) < 80
    topics = shown.partition("The topics:\n")[2].partition("\n")[0].split()
    assert set.union(*(flags(helped(topic)) for topic in topics[:-1])) == flags(helped("all"))
    assert "--stratify" in flags(helped("splits")) and "--images" not in flags(helped("splits"))
    with pytest.raises(UsageError, match="--help 'nope' is no topic: give one of labels output"):
        main(["--help", "nope"])


def test_help_names_every_flag() -> None:
    out = helped("all")
    assert all(flag in out for flag in _flags())
    words = " ".join(out.split())
    assert "(default: None)" not in words and "(default: False)" not in words
    assert "(default: slim)" in words


def test_compression_as_tensorflow_spells_it() -> None:
    flags, _ = parse_flags("convert", ["--images=i", "--output=o", "--compression=GZIP"])
    assert flags.compression == "gzip"
