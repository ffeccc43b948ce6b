"""What the file that a spec names does when it is imported, beyond defining things: read as text, not run."""

import ast
import os
import sys

from .shortening import beginning

MOST_BYTES = 2 << 20
RUNS = ("main", "train", "run")
"""Functions of the file itself that start the whole job when they are called."""


def probe(arguments, step):
    """`place` is a path that ends in .py, or a module's name, `maker` the function in it that makes the dataset or the loader.

    Gives the lines that would run again in each worker.
    """
    path = arguments["place"] if arguments["place"].endswith(".py") else file_of(arguments["place"])
    if path is None or not os.path.isfile(path):
        return {"path": None, "unguarded": []}
    step("read " + path)
    with open(path, "rb") as file:
        source = file.read(MOST_BYTES)
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return {"path": path, "unguarded": []}
    return {"path": path, "unguarded": unguarded(tree, arguments["maker"])}


def file_of(module):
    """Where an import would find it, without importing the packages that it is in."""
    for folder in sys.path:
        for ending in (".py", os.sep + "__init__.py"):
            path = os.path.join(folder, *module.split(".")) + ending
            if os.path.isfile(path):
                return path
    return None


def unguarded(tree, maker):
    """Calls and loops at the top level that start workers or the job: their lines and how they look."""
    loaders, processes, functions = set(), set(), set()
    makers = {maker}
    found = []
    for node in at_the_top(tree.body):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            functions.add(node.name)
            if any(makes_loader(inner, set()) for inner in ast.walk(node)):
                makers.add(node.name)
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            made = {target.id for target in node.targets if isinstance(target, ast.Name)}
            if makes_loader(node.value, makers):
                loaders |= made
            elif last_name(node.value.func).endswith("Process"):
                processes |= made
        starts = (
            (isinstance(node, ast.For) and holds_loader(node.iter, loaders, makers))
            or (isinstance(node, ast.Call) and last_name(node.func) in ("iter", "list") and holds_loader(node, loaders, makers))
            or (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in functions & set(RUNS))
            or (isinstance(node, ast.Call) and last_name(node.func) == "start" and started(node.func, processes))
        )
        if starts:
            shown = node.iter if isinstance(node, ast.For) else node
            found.append({"line": node.lineno, "what": ("for ... in " if shown is not node else "") + text_of(shown)})
    return found


def makes_loader(node, makers):
    """Whether it is a call of DataLoader or of a function that makes one."""
    if not isinstance(node, ast.Call):
        return False
    return last_name(node.func).endswith("DataLoader") or (isinstance(node.func, ast.Name) and node.func.id in makers)


def holds_loader(node, loaders, makers):
    return bool(names_in(node) & loaders) or any(makes_loader(inner, makers) for inner in ast.walk(node))


def at_the_top(statements):
    """What is run when the module is imported, in its order: not what stands in functions, classes and below a main guard."""
    for node in statements:
        if isinstance(node, ast.If) and is_guard(node.test):
            for inner in at_the_top(node.orelse):
                yield inner
            continue
        yield node
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            continue
        inner = [child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.Lambda)]
        for child in at_the_top(inner):
            yield child


def is_guard(test):
    return "__name__" in names_in(test)


def names_in(node):
    return {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}


def last_name(function):
    return getattr(function, "attr", None) or getattr(function, "id", "")


def started(function, processes):
    owner = function.value if isinstance(function, ast.Attribute) else function
    if isinstance(owner, ast.Call):
        return last_name(owner.func).endswith("Process")
    return bool(names_in(owner) & processes)


def text_of(node):
    return beginning(ast.unparse(node), 80) if hasattr(ast, "unparse") else last_name(getattr(node, "func", node)) + "(...)"
