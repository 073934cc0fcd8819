"""Only the storage room reads the scheme of a path."""

import ast
import re

from tests.test_layering import MODULES, STORAGE, name_of, parsed

# Modules outside of `transforms.storage` that read a scheme, each for what it is to a name.
SCHEME_READERS = {
    "pipeline.resolve.path_flags": "a message shows an address without what is secret in it",
    "pipeline.run.beam_compat": "words of a command line, before Beam may be imported",
    "transforms.list_rejections": "the name of a copy has that of its original in it",
    "transforms.core.messages": "a text without an address has no secret of one to hide",
    "transforms.labels.keys": "what a cell names, where the path in a name begins; opens nothing",
}

FUNCTIONS = {"is_gcs", "is_local", "urlparse", "urlsplit"}

CLASSES = {"LocalStorage", "GcsStorage", "BeamStorage"}


def scheme_checks(tree: ast.AST) -> list[str]:
    """The expressions that read the scheme of a path, or the class of a storage."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom | ast.Import):
            names = {alias.name for alias in node.names}
            found += sorted(names & (FUNCTIONS | CLASSES))
        elif isinstance(node, ast.Name) and node.id in CLASSES:
            found.append(node.id)
        elif isinstance(node, ast.Call):
            found += sorted({ast.unparse(node.func).rpartition(".")[2]} & FUNCTIONS)
        if isinstance(node, ast.Compare):
            asked: list[ast.expr] = [node.left, *node.comparators]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            asked = node.args
        else:
            asked = []
        words = (each for expression in asked for each in ast.walk(expression))
        texts = (each.value for each in words if isinstance(each, ast.Constant))
        if any(isinstance(text, str) and re.fullmatch(r"\w*://", text) for text in texts):
            found.append(ast.unparse(node))
    return found


def test_only_storage_reads_schemes() -> None:
    outside = [path for path in MODULES if path not in STORAGE]
    assert {name_of(path) for path in outside if scheme_checks(parsed(path))} == set(SCHEME_READERS)
