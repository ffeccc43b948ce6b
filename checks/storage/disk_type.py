from dl_doctor.contract import Check
from dl_doctor.facts import DataPaths, Disks
from dl_doctor.facts.data_paths import DataPath
from dl_doctor.facts.disks import Disk, Place
from dl_doctor.fixes import copy_to_a_local_disk
from dl_doctor.model import Finding, Fix, Quantity, Verdict
from dl_doctor.units import KIB, binary_size

SMALL_FILE_BYTES = 128 * KIB
"""Mean size of files below which, on a network, asking for a file takes longer than fetching it. Proposal."""

FEW_FILES = 20
"""A mean of fewer files says little about a dataset."""

MODELS = (
    ("Amazon Elastic Block Store", "a network volume (EBS)", "docs.aws.amazon.com, EBS and NVMe"),
    ("Amazon EC2 NVMe Instance Storage", "a local SSD of the instance", "docs.aws.amazon.com, instance store volumes"),
    ("PersistentDisk", "a network volume (Persistent Disk)", "cloud.google.com, persistent disks"),
    ("EphemeralDisk", "a local SSD of the instance", "cloud.google.com, local SSD"),
    ("nvme_card-pd", "a network volume (Persistent Disk)", "cloud.google.com, disk symlinks"),
    ("nvme_card", "a local SSD of the instance", "cloud.google.com, disk symlinks"),
    ("MSFT NVMe Accelerator", "a network volume (Azure managed disk)", "learn.microsoft.com, Azure NVMe overview"),
    ("Microsoft NVMe Direct Disk", "a local SSD of the instance", "learn.microsoft.com, Azure NVMe overview"),
    ("Virtual Disk", "a virtual disk (Hyper-V, Azure)", "learn.microsoft.com"),
    ("Virtual disk", "a virtual disk (VMware)", "what VMware's SCSI disks say"),
    ("VMware", "a virtual disk (VMware)", "what VMware's SCSI and NVMe disks say"),
    ("QEMU", "a virtual disk (QEMU)", "what QEMU's disks say"),
    ("VBOX", "a virtual disk (VirtualBox)", "what VirtualBox's disks say"),
    ("BlockVolume", "a network volume (Oracle Cloud)", "docs.oracle.com, block volume"),
)
"""How models begin that are not disks one can touch, what they are, and the source."""

KINDS = {
    "network": "a network filesystem: each file that is opened asks a server, and caching hides it only the second time",
    "user space": "a filesystem that a program serves, which may ask a network for each file",
    "host": "another system's files, seen from inside a virtual machine: slow with many small files",
    "memory": "memory: fast, and taken from what the job has",
    "layers": "layers of a container image; the disk below is out of sight from here",
    "unknown": "a type of filesystem that is not known here",
}


def disk_type(data_paths: DataPaths, disks: Disks) -> Verdict:
    """The data lies on a disk that suits it

    ## What it checks
    What the training data lies on: the mount that is seen there, its type, and the disks below partitions, LVM, RAID, LUKS,
    btrfs and overlays, with what their models say (a cloud volume is a network, whatever it looks like).

    ## Why it matters
    A local SSD answers in a tenth of a millisecond, a network in one or more, a rotating disk in ten. Datasets of many small
    files feel that at every file.

    ## How it decides
    It takes a note of what there is. It warns where `--data` holds many small files (below 128 KiB on average) on a network, in a
    program's filesystem or on another system's. The kernel's flag for rotating disks is often wrong, and at most a note.

    For example, an ImageFolder on NFS warns; the same files as tar shards on NFS are a note.

    ## How to fix
    Pack small files into shards, or copy them to the node's own disk before the training starts.

    ## Known limits
    Whether the disk is fast enough is not measured here, and in a container the disk below the image is out of sight.

    ## References
    hwameistor/hwameistor#313, aristocratos/btop#1249, libffcv/ffcv#29, microsoft/WSL#4197, ceph/ceph#26957
    """
    looked_at = data_paths.of("data") or data_paths.of("working")
    pairs = [(entry, disks.of(entry.path)) for entry in looked_at if entry.role != "data" or entry.exists is not False]
    known = [(entry, place) for entry, place in pairs if place is not None]
    if not known:
        return Verdict.skip("the mount table shows nothing at the paths of this job")
    seen = "; ".join(f"{entry.path} is on {described(place)}" for entry, place in known)
    if not data_paths.of("data"):
        return Verdict(seen, [note(entry, place, asked=False) for entry, place in known])
    copied = copy_to_a_local_disk("Copy them to this node's disk before the training starts", data_paths, disks)
    return Verdict(seen, [judge(entry, place, copied) for entry, place in known])


def described(place: Place) -> str:
    """`ext4 on md0 over nvme0n1 and nvme1n1`."""
    if not place.disks:
        return f"{place.filesystem} from {place.source}"
    disks = " and ".join(f"{disk.name}{f' ({disk.model})' if disk.model else ''}" for disk in place.disks)
    return f"{place.filesystem} on {', '.join([*place.layers, disks])}"


def nature(place: Place) -> str:
    """What to expect of it, in a sentence's part."""
    if place.kind != "disk":
        return KINDS[place.kind]
    if not place.disks:
        return "a disk that is out of sight from here"
    kinds = list(dict.fromkeys(map(nature_of_disk, place.disks)))
    return " and ".join(kinds)


def nature_of_disk(disk: Disk) -> str:
    for model, words, _ in MODELS:
        if disk.model and disk.model.startswith(model):
            return words
    if disk.virtual:
        return "a virtual disk: what is below it, and whether it is local, cannot be told from inside"
    if disk.rotational is None:
        return "a disk that does not say what it is"
    if disk.name.startswith("nvme"):
        return "a solid-state disk (NVMe)"
    return "a disk that calls itself rotating, which is often wrong" if disk.rotational else "a solid-state disk"


def note(entry: DataPath, place: Place, *, asked: bool) -> Finding:
    hint = "" if asked else " Say --data where the data lies elsewhere."
    return Finding(
        level="note",
        subject=entry.path,
        summary=f"{entry.path} is on {described(place)}",
        why=f"It is {nature(place)}.{hint}",
    )


def judge(entry: DataPath, place: Place, fixes: tuple[Fix, ...]) -> Finding:
    mean = entry.mean_file_bytes
    small = mean is not None and mean < SMALL_FILE_BYTES and (entry.files_seen or 0) >= FEW_FILES
    if place.kind not in ("network", "user space", "host") or not small or mean is None:
        return note(entry, place, asked=True)
    return Finding(
        level="warn",
        subject=entry.path,
        summary=f"{entry.path} holds small files on {described(place)}",
        measured=Quantity(mean, "bytes", f"mean of the first {entry.files_seen} files"),
        expected=Quantity(SMALL_FILE_BYTES, "bytes", "below it, asking for a file takes longer than fetching it"),
        relation="at_least",
        why=f"It is {nature(place)}. Files of {binary_size(mean)} make the loader wait for answers, not for data.",
        fixes=(
            *fixes,
            Fix("Or pack the files into shards of some 100 MiB", note="Such as WebDataset's, or Parquet."),
        ),
    )


CHECK = Check(disk_type)
