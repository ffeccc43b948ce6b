"""What PyTorch itself asks for in an issue: the output of `python -m torch.utils.collect_env`."""

import importlib
import sys

from .shortening import beginning


def probe(arguments, step):
    sys.dont_write_bytecode = True
    step("import torch.utils.collect_env")
    module = importlib.import_module("torch.utils.collect_env")
    step("torch.utils.collect_env")
    return {"text": beginning(str(module.get_pretty_env_info()), arguments["longest"])}
