"""What the kernel's books say of processes while something is measured. A value that it does not give is None."""

import os
import threading
import time

LOOK_EVERY_S = 0.05


def account(pids):
    """Of these processes together: seconds on a CPU and waiting for one, bytes that came from a disk."""
    times = [scheduled(pid) for pid in pids]
    known = [each for each in times if each is not None]
    complete = bool(pids) and len(known) == len(times)
    stored = [stored_bytes(pid) for pid in pids]
    return {
        "cpu_s": sum(each[0] for each in known) if complete else None,
        "waiting_s": sum(each[1] for each in known) if complete else None,
        "stored_bytes": sum(each for each in stored if each) if pids and None not in stored else None,
        "received_bytes": received_bytes(),
        "machine_cpu_s": machine_cpu_s(),
        "memory_stalls_s": memory_stalls_s(),
        "stolen_s": stolen_s(),
        "own_cpu_s": time.process_time(),
    }


def between(before, after):
    """What was added; None where either is not known."""
    return {name: None if before[name] is None or after[name] is None else after[name] - before[name] for name in before}


def scheduled(pid):
    """Seconds on a CPU and in the queue for one, of all threads that live."""
    on_cpu, queued = 0.0, 0.0
    try:
        for thread in os.listdir("/proc/%d/task" % pid):
            with open("/proc/%d/task/%s/schedstat" % (pid, thread)) as file:
                first, second = file.read().split()[:2]
            on_cpu, queued = on_cpu + int(first) / 1e9, queued + int(second) / 1e9
    except (OSError, ValueError):
        return None
    return on_cpu, queued


def queued_s():
    """Seconds that this thread has waited for a CPU; 0 where the kernel does not tell."""
    try:
        with open("/proc/thread-self/schedstat") as file:
            return int(file.read().split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return 0.0


def stored_bytes(pid, counter="read_bytes"):
    """That came from a disk; `rchar` counts what was asked for by read(2), wherever it came from."""
    try:
        with open("/proc/%d/io" % pid) as file:
            return next((int(line.split()[1]) for line in file if line.startswith(counter + ":")), None)
    except (OSError, ValueError):
        return None


def received_bytes():
    """By all interfaces of this network namespace: one's own machine counts, where a server there stands for a remote one."""
    try:
        with open("/proc/net/dev") as file:
            return sum(int(line.partition(":")[2].split()[0]) for line in file if ":" in line)
    except (OSError, ValueError, IndexError):
        return None


def machine_cpu_s():
    """Seconds of CPU that everybody on this machine has used."""
    try:
        with open("/proc/stat") as file:
            fields = [int(field) for field in file.readline().split()[1:9]]
    except (OSError, ValueError):
        return None
    return (sum(fields) - fields[3] - fields[4]) / os.sysconf("SC_CLK_TCK")


def stolen_s():
    """Seconds in which the hypervisor gave the CPUs here to others; the mean of all CPUs."""
    try:
        with open("/proc/stat") as file:
            return int(file.readline().split()[8]) / os.sysconf("SC_CLK_TCK") / (os.cpu_count() or 1)
    except (OSError, ValueError, IndexError):
        return None


def memory_stalls_s():
    """Seconds in which nothing here went on for want of memory."""
    try:
        with open("/proc/pressure/memory") as file:
            return next((int(line.rpartition("=")[2]) / 1e6 for line in file if line.startswith("full")), None)
    except (OSError, ValueError):
        return None


class Looks:
    """How often processes were found waiting for a disk (state D), by a thread that looks now and then."""

    def __init__(self, pids):
        self.pids, self.seen, self.in_disk, self.over = pids, 0, 0, False
        self.thread = threading.Thread(target=self.look, daemon=True)
        self.thread.start()

    def look(self):
        while not self.over:
            for pid in self.pids:
                state = state_of(pid)
                self.seen += state is not None
                self.in_disk += state == "D"
            time.sleep(LOOK_EVERY_S)

    def end(self):
        """The part of the looks, or None where nothing was seen."""
        self.over = True
        self.thread.join()
        return self.in_disk / self.seen if self.seen else None


def state_of(pid):
    try:
        with open("/proc/%d/stat" % pid) as file:
            return file.read().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return None
