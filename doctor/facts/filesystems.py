"""What a filesystem's type, as the mount table spells it, says about where its files are."""

from typing import Literal

Kind = Literal["disk", "network", "user space", "host", "memory", "layers", "unknown"]
"""`network`: on a server, or in an object store. `user space`: served by a program, which may be anything. `host`: another
system's files, of which this one is a guest. `layers`: made of other filesystems."""

KERNEL = "docs.kernel.org/filesystems"

TABLE: tuple[tuple[str, Kind, str], ...] = (
    ("9p", "host", f"{KERNEL}/9p; WSL 2 mounts Windows' disks so"),
    ("acfs", "network", "docs.oracle.com, Advanced Cluster File System"),
    ("afs", "network", f"{KERNEL}/afs"),
    ("aufs", "layers", "aufs.sourceforge.net"),
    ("bcachefs", "disk", f"{KERNEL}/bcachefs"),
    ("beegfs", "network", "doc.beegfs.io"),
    ("btrfs", "disk", f"{KERNEL}/btrfs"),
    ("ceph", "network", f"{KERNEL}/ceph"),
    ("cifs", "network", f"{KERNEL}/cifs"),
    ("devtmpfs", "memory", "devtmpfs in the kernel's drivers/base"),
    ("drvfs", "host", "learn.microsoft.com, WSL 1"),
    ("erofs", "disk", f"{KERNEL}/erofs"),
    ("ext2", "disk", f"{KERNEL}/ext2"),
    ("ext3", "disk", f"{KERNEL}/ext3"),
    ("ext4", "disk", f"{KERNEL}/ext4"),
    ("f2fs", "disk", f"{KERNEL}/f2fs"),
    ("fakeowner", "host", "Docker Desktop's shared folders"),
    ("fuse.bindfs", "layers", "bindfs.org"),
    ("fuse.blobfuse", "network", "github.com/Azure/azure-storage-fuse"),
    ("fuse.blobfuse2", "network", "github.com/Azure/azure-storage-fuse"),
    ("fuse.ceph", "network", "docs.ceph.com, ceph-fuse"),
    ("fuse.ceph-fuse", "network", "docs.ceph.com, ceph-fuse"),
    ("fuse.cvmfs2", "network", "cvmfs.readthedocs.io"),
    ("fuse.fuse-overlayfs", "layers", "github.com/containers/fuse-overlayfs"),
    ("fuse.gcsfuse", "network", "cloud.google.com, Cloud Storage FUSE"),
    ("fuse.glusterfs", "network", "docs.gluster.org"),
    ("fuse.goofys", "network", "github.com/kahing/goofys"),
    ("fuse.grpcfuse", "host", "Docker Desktop's shared folders"),
    ("fuse.juicefs", "network", "juicefs.com/docs"),
    ("fuse.mountpoint-s3", "network", "github.com/awslabs/mountpoint-s3"),
    ("fuse.rclone", "network", "rclone.org, rclone mount"),
    ("fuse.s3fs", "network", "github.com/s3fs-fuse/s3fs-fuse"),
    ("fuse.sshfs", "network", "github.com/libfuse/sshfs"),
    ("fuseblk", "disk", f"{KERNEL}/fuse: a program on a block device, such as ntfs-3g"),
    ("fuse-overlayfs", "layers", "github.com/containers/fuse-overlayfs"),
    ("gfs2", "network", f"{KERNEL}/gfs2"),
    ("glusterfs", "network", "docs.gluster.org"),
    ("gpfs", "network", "ibm.com/docs, Storage Scale"),
    ("grpcfuse", "host", "Docker Desktop's shared folders"),
    ("hugetlbfs", "memory", "docs.kernel.org/admin-guide/mm/hugetlbpage"),
    ("iso9660", "disk", f"{KERNEL}/isofs"),
    ("lustre", "network", "doc.lustre.org"),
    ("mergerfs", "layers", "github.com/trapexit/mergerfs"),
    ("nfs", "network", f"{KERNEL}/nfs"),
    ("nfs4", "network", f"{KERNEL}/nfs"),
    ("ntfs3", "disk", f"{KERNEL}/ntfs3"),
    ("ocfs2", "network", f"{KERNEL}/ocfs2"),
    ("orangefs", "network", f"{KERNEL}/orangefs"),
    ("overlay", "layers", f"{KERNEL}/overlayfs"),
    ("panfs", "network", "Panasas PanFS"),
    ("prl_fs", "host", "Parallels' shared folders"),
    ("pvfs2", "network", "orangefs.org"),
    ("quobyte", "network", "quobyte.com"),
    ("ramfs", "memory", f"{KERNEL}/ramfs-rootfs-initramfs"),
    ("smb3", "network", f"{KERNEL}/cifs"),
    ("smbfs", "network", "the kernel's older SMB client"),
    ("squashfs", "disk", f"{KERNEL}/squashfs"),
    ("tmpfs", "memory", f"{KERNEL}/tmpfs"),  # noqa: S108
    ("vboxsf", "host", f"{KERNEL}/vboxsf"),
    ("vfat", "disk", f"{KERNEL}/vfat"),
    ("virtiofs", "host", f"{KERNEL}/virtiofs"),
    ("vmhgfs", "host", "VMware's shared folders"),
    ("wekafs", "network", "docs.weka.io"),
    ("xfs", "disk", f"{KERNEL}/xfs"),
    ("zfs", "disk", "openzfs.github.io"),
)
"""Type, kind and source of each."""

KINDS: dict[str, Kind] = {name: kind for name, kind, _ in TABLE}


def kind_of(filesystem: str) -> Kind:
    """The kind of filesystem; one that is served by an unknown program is `user space`."""
    return KINDS.get(filesystem) or ("user space" if filesystem.startswith("fuse") else "unknown")
