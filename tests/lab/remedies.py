"""The fixes that a finding prints, carried out: a `docker run` makes another recipe, a DataLoader another plan."""

import argparse
import ast
import resource
import shlex
from dataclasses import replace
from typing import NoReturn

from tests.lab.container import Recipe
from tests.lab.doctor import Plan


def carried_out(command: str, recipe: Recipe, plan: Plan) -> tuple[Recipe, Plan]:
    """The recipe and the plan after this command; ValueError for one, or an option of one, that is not known here."""
    if command.startswith("docker run "):
        return docker_run(command, recipe), plan
    if command.startswith("export "):
        return docker_run(f"docker run -e {command.removeprefix('export ')} ...", recipe), plan
    if command.startswith("DataLoader("):
        return recipe, {**plan, **arguments(command)}
    raise ValueError(f"nobody here knows how to carry out: {command}")


class Strict(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ValueError(message)


def docker_run(command: str, recipe: Recipe) -> Recipe:
    """The recipe with the options of a `docker run ... IMAGE`, whose image is written `...`."""
    parser = Strict(allow_abbrev=False, add_help=False)
    parser.add_argument("--shm-size", dest="shm", type=size, default=recipe.shm)
    parser.add_argument("--cpus", type=float, default=recipe.cpus)
    parser.add_argument("--memory", type=size, default=recipe.memory)
    parser.add_argument("--ulimit", dest="nofile", type=open_files, default=recipe.nofile)
    parser.add_argument("-e", dest="environment", type=variable, action="append", default=[*recipe.environment.items()])
    parser.add_argument("image", choices=["..."])
    given = vars(parser.parse_args(shlex.split(command)[2:]))
    del given["image"]
    return replace(recipe, **{**given, "environment": dict(given["environment"])})


def size(text: str) -> int:
    """Bytes, as docker reads `512m`."""
    return int(text[:-1]) << 10 * "bkmg".index(text[-1])


def variable(text: str) -> tuple[str, str]:
    name, value = text.split("=", 1)
    return name, value


def open_files(text: str) -> int:
    """Descriptors in `nofile=65536:65536`, or as many of them as this machine may hand on."""
    soft, hard = text.removeprefix("nofile=").split(":")
    if soft != hard:
        raise ValueError(f"a recipe has one limit, not {text}")
    ours = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    return int(hard) if ours == resource.RLIM_INFINITY else min(int(hard), ours)


def arguments(call: str) -> dict[str, str]:
    """The keyword arguments of `DataLoader(..., num_workers=1)`, named as the doctor's options are."""
    names = {"multiprocessing_context": "start-method"}
    expression = ast.parse(call, mode="eval").body
    assert isinstance(expression, ast.Call)
    return {
        names.get(f"{keyword.arg}", f"{keyword.arg}".replace("_", "-")): str(ast.literal_eval(keyword.value))
        for keyword in expression.keywords
    }
