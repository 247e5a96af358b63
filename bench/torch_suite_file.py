"""One file of PyTorch's own tests, with another backend in the place of Gloo.

    python3 bench/torch_suite_file.py FILE BACKEND RESULTS.json

Groups of Gloo, and of backends of devices that are not here, are made of BACKEND. Names of devices
in the file become "cpu". Ranks are forked, since the file is no module that they could import.
RESULTS.json has the outcome of each test: passed, failed, skipped, and unused where no group was
made.
"""

from __future__ import annotations

import json
import os
import re
import sys
import types
import unittest
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

DEVICES = ("npu", "xpu")
BACKENDS = ("gloo", "hccl", "xccl", "nccl")
WHEEL = "torch/testing/_internal/distributed/distributed_test.py"


def main() -> None:
    """Run the tests of the file."""
    file, backend, results = Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3])
    os.environ |= {"OMP_NUM_THREADS": "1", "BACKEND": "gloo", "MASTER_ADDR": "127.0.0.1"}
    os.environ.setdefault("WORLD_SIZE", "4")
    os.environ.setdefault("DISTRIBUTED_TESTS_DEFAULT_TIMEOUT", "100")
    folder = results.with_suffix(".folder")
    folder.mkdir(parents=True, exist_ok=True)
    os.environ["TEMP_DIR"] = str(folder)
    used = folder / "used"
    sys.meta_path.append(OtherDevices())
    substitute(backend, used)
    need_no_devices(is_of_the_wheel=str(file).endswith(WHEEL))
    module = loaded(file)
    tests = unittest.defaultTestLoader.loadTestsFromModule(module)
    outcome = Outcomes(used, results)
    tests.run(outcome)
    outcome.write()
    os._exit(0)  # ranks of a test that hung may be left


def substitute(backend: str, used: Path) -> None:
    """Make groups of Gloo of the backend, and note that one was made."""
    import torch
    import torch.distributed as dist
    from torch.distributed import distributed_c10d

    if backend != "gloo":
        __import__(f"{backend}.torch")
    make = distributed_c10d._new_process_group_helper

    def made(size: Any, rank: Any, ranks: Any, name: Any, *rest: Any, **options: Any) -> Any:
        text = "gloo" if str(name) == "undefined" else str(name)
        found = re.search("|".join(BACKENDS), text)
        if found is not None:
            used.touch()
            options["backend_options"] = None
            text = backend
        return make(size, rank, ranks, dist.Backend(text), *rest, **options)

    distributed_c10d._new_process_group_helper = made
    context = torch.multiprocessing.get_context
    torch.multiprocessing.get_context = lambda _method=None: context("fork")
    torch.multiprocessing.set_start_method("fork", force=True)
    torch.multiprocessing.set_start_method = lambda *_args, **_options: None


def need_no_devices(*, is_of_the_wheel: bool) -> None:
    """Let tests run that want more processors than are here: what can, shows itself."""
    import torch
    from torch.testing._internal import common_distributed, common_utils

    common_distributed.skip_if_small_worldsize = lambda test: test
    if not is_of_the_wheel:  # whose tests of GPUs name them
        for name in ("skip_if_lt_x_gpu", "requires_accelerator_dist_backend"):
            setattr(common_distributed, name, unchanged)
        torch.cpu.device_count = lambda: int(os.environ["WORLD_SIZE"])
        torch.cpu._sleep = common_utils._cpu_sleep
        torch.accelerator.device_count = lambda: sys.maxsize


class OtherDevices(MetaPathFinder):
    """Finds modules for devices that are not here: what the ported tests import of them."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """Find `torch_npu` and all below it."""
        del path, target
        return ModuleSpec(name, self, is_package=True) if name.startswith("torch_npu") else None

    def create_module(self, spec: ModuleSpec) -> types.ModuleType:
        """Make a module with what the tests use."""
        from torch.testing._internal import common_fsdp, common_utils
        from torch.testing._internal.distributed._tensor import common_dtensor

        module = types.ModuleType(spec.name)
        module.__dict__.update(
            skipIfUnsupportMultiNPU=unchanged,
            SupportedDevices=unchanged,
            with_comms=common_dtensor.with_comms,
            run_tests=common_utils.run_tests,
            TestCase=common_utils.TestCase,
            FSDPNPUTest=common_fsdp.FSDPTest,
            NPUDTensorTestBase=common_dtensor.DTensorTestBase,
        )
        return module

    def exec_module(self, module: types.ModuleType) -> None:
        """Do nothing: it is complete."""


def unchanged(*_what: Any, **_options: Any) -> Callable[[Any], Any]:
    """Decorate nothing: a device of the test is a CPU."""
    return lambda function: function


def loaded(file: Path) -> types.ModuleType:
    """The file as a module, on CPUs."""
    text = file.read_text(encoding="utf-8")
    for device in DEVICES:
        text = re.sub(rf"""(["']){device}(["':])""", r"\1cpu\2", text)
        text = text.replace(f".{device}()", ".cpu()").replace(f"torch.{device}.", "torch.cpu.")
    text = re.sub(r"torch\.accelerator\.current_accelerator\([^()]*\)", 'torch.device("cpu")', text)
    name = f"suite_{file.stem}"
    module = types.ModuleType(name)
    module.__file__ = str(file)
    sys.modules[name] = module
    sys.path.insert(0, str(file.parent))
    exec(compile(text, str(file), "exec", dont_inherit=True), module.__dict__)
    if str(file).endswith(WHEEL):
        module.__dict__["Suite"] = of_the_wheel(module)
    return module


def of_the_wheel(module: Any) -> type:
    """The tests of the wheel, which has them for others to derive from."""
    bases = (module.TestDistBackend, module.DistributedTest._DistTestBase)

    class Suite(*bases):  # type: ignore[misc]
        def setUp(self) -> None:
            super().setUp()
            self._spawn_processes()

    return Suite


class Outcomes(unittest.TestResult):
    """What came of each test, written after each, since one may end the process."""

    def __init__(self, used: Path, results: Path) -> None:
        """Write to `results`; `used` is there once a test has made a group."""
        super().__init__()
        self.used, self.results = used, results
        self.found: dict[str, str] = {}
        self.texts: dict[str, str] = {}
        self.groups: set[type] = set()

    def startTest(self, test: unittest.TestCase) -> None:
        """Forget groups of the test before."""
        super().startTest(test)
        self.used.unlink(missing_ok=True)
        self.found[test.id()] = "passed"
        print(test.id(), flush=True)

    def stopTest(self, test: unittest.TestCase) -> None:
        """A test that made no group says nothing of a backend."""
        super().stopTest(test)
        if self.used.exists():
            self.groups.add(type(test))
        keeps_groups = "Continuous" in " ".join(base.__name__ for base in type(test).__mro__)
        made = self.used.exists() or (keeps_groups and type(test) in self.groups)
        if self.found[test.id()] != "skipped" and not made:
            self.found[test.id()] = "unused"
        self.write()

    def addError(self, test: unittest.TestCase, err: Any) -> None:
        """An exception."""
        self._fail(test, err)

    def addFailure(self, test: unittest.TestCase, err: Any) -> None:
        """Something is not as it should be."""
        self._fail(test, err)

    def addSubTest(self, test: unittest.TestCase, subtest: Any, err: Any) -> None:
        """A part of a test has ended."""
        del subtest
        if err is not None:
            self._fail(test, err)

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:
        """The suite wants something else."""
        self.found[test.id()] = "skipped"
        self.texts[test.id()] = reason

    def _fail(self, test: unittest.TestCase, err: Any) -> None:
        self.found[test.id()] = "failed"
        self.texts[test.id()] = self._exc_info_to_string(err, test)[-3000:]

    def write(self) -> None:
        """Write what is known."""
        document = {"outcomes": self.found, "texts": self.texts}
        self.results.write_text(json.dumps(document, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
