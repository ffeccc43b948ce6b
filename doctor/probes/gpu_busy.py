"""How busy the GPU is on which the user's step runs, by a thread that asks torch now and then, which asks nvidia-ml-py."""

import threading

LOOK_EVERY_S = 0.2
"""NVML's own figure is a mean over a sixth of a second to a second."""


class GpuBusy:
    """The part of the time in which something ran on it. Nothing is asked where nobody has begun CUDA in this process."""

    def __init__(self, torch):
        self.told, self.over = [], threading.Event()
        self.thread = None
        if torch.cuda.is_initialized():
            self.torch, self.device = torch, torch.cuda.current_device()  # of this thread: another one has its own
            self.thread = threading.Thread(target=self.look, daemon=True)
            self.thread.start()

    def look(self):
        while not self.over.wait(LOOK_EVERY_S):
            try:
                self.told.append(self.torch.cuda.utilization(self.device))
            except Exception:  # noqa: BLE001 (no nvidia-ml-py, an instance of MIG, another vendor: then it is not known)
                return

    def end(self):
        """Between 0 and 1; None where it is not known."""
        self.over.set()
        if self.thread is not None:
            self.thread.join(LOOK_EVERY_S)
        return sum(self.told) / len(self.told) / 100 if self.told else None
