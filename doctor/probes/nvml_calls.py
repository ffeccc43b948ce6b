"""Calls of NVML by nvidia-ml-py, for probes: each is told before it is made, and where it fails the code is kept by name."""


class Nvml:
    def __init__(self, step):
        step("import pynvml")
        import pynvml  # noqa: PLC0415 (it loads no library)

        self.pynvml = pynvml
        self.step = step
        self.names = {value: name[len("NVML_ERROR_") :] for name, value in vars(pynvml).items() if name.startswith("NVML_ERROR_")}
        self.names[pynvml.NVML_SUCCESS] = "SUCCESS"

    def name_of(self, code):
        return self.names.get(code, str(code))

    def asker(self, errors, about=""):
        """A function that calls one of nvidia-ml-py's and gives its answer; None where it fails, and `errors` tells why."""

        def ask(function, *given):
            self.step(function + about)
            call = getattr(self.pynvml, function, None)
            if call is None:  # a nvidia-ml-py that is older than the function
                errors[function] = "FUNCTION_NOT_FOUND"
                return None
            try:
                return call(*given)
            except self.pynvml.NVMLError as error:
                errors[function] = self.name_of(error.value)
                return None
            except UnicodeDecodeError:  # nvidia-ml-py takes every text for UTF-8
                errors[function] = "NO_TEXT"
                return None

        return ask

    def made(self, struct):
        """An empty struct of this name, which says its version itself; None where nvidia-ml-py has none."""
        known = getattr(self.pynvml, struct, None)
        return known and known()


def text(value):
    return value.decode("ascii", "replace") if isinstance(value, bytes) else value


def address(pci):
    """As Linux writes it: `0000:07:00.0` for NVML's `00000000:07:00.0`."""
    domain, _, rest = text(pci.busId).lower().partition(":")
    return "%s:%s" % (domain.lstrip("0").rjust(4, "0"), rest)
