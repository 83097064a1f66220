"""Confine this process: no network, no other program, few files, limited memory and time.

A process can use a socket that it is given, but cannot connect it to another address.

Linux enforces it with rights that every account has: resource limits, Landlock for files, and a
seccomp filter that allows few system calls. Elsewhere only the resource limits apply. (bubblewrap is
not used: it is one more program to install, needs user namespaces, which Ubuntu, Docker and our
systemd unit deny, and has no filter of its own.)
"""

import ctypes
import errno
import math
import os
import platform
import resource
import struct
import sys
import time
from collections.abc import Iterable, Mapping
from itertools import chain
from pathlib import Path
from typing import TypeAlias

MEMORY_BYTES = 1024 * 1024 * 1024
WRITTEN_FILE_BYTES = 2 * 1024 * 1024 * 1024
OPEN_FILES = 256
CPU_SECONDS = 600
CPU_BYTES_PER_SECOND = 50_000
"""CPU_SECONDS, and a second for as many bytes of the export: ours need a twentieth of that."""
CPU_SECONDS_PER_SCAN = 60

_NO_NEW_PRIVILEGES, _DUMPABLE, _SECCOMP, _SECCOMP_FILTER = 38, 4, 22, 2
_LANDLOCK_CREATE, _LANDLOCK_ADD, _LANDLOCK_RESTRICT = 444, 445, 446
_READ_FILE, _READ_DIR = 1 << 2, 1 << 3
_FILE_RIGHTS_BY_ABI = {1: 0x1FFF, 2: 0x3FFF, 3: 0x7FFF, 4: 0x7FFF}
_ALL_FILE_RIGHTS = 0xFFFF
_TCP_RIGHTS = _SCOPES = 0x3
_SYSTEM_PATHS = (
    "/usr/lib", "/usr/lib64", "/lib", "/lib64", "/usr/share/zoneinfo", "/etc/localtime",
    "/etc/ld.so.cache", "/etc/mime.types", "/dev/null", "/dev/urandom", "/usr/share/tesseract-ocr",
    "/usr/share/tessdata",
)  # fmt: skip

_ALLOW, _DENY, _MISSING = 0x7FFF0000, 0x00050000 | errno.EPERM, 0x00050000 | errno.ENOSYS
_LOAD, _AND, _EQUAL, _HAS_BITS, _RETURN = 0x20, 0x54, 0x15, 0x45, 0x06
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT, _ARGUMENT_BYTES = 0, 4, 16, 8
_MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
"""By machine: the column of its numbers below, and its audit architecture."""
_ALLOWED_CALLS: Mapping[str, tuple[int | None, int | None]] = {
    "read": (0, 63), "write": (1, 64), "readv": (19, 65), "writev": (20, 66), "pread64": (17, 67),
    "pwrite64": (18, 68), "preadv": (295, 69), "lseek": (8, 62), "sendfile": (40, 71),
    "stat": (4, None), "lstat": (6, None), "fstat": (5, 80), "newfstatat": (262, 79),
    "statx": (332, 291), "access": (21, None), "faccessat": (269, 48), "faccessat2": (439, 439),
    "readlink": (89, None), "readlinkat": (267, 78), "getdents64": (217, 61), "getcwd": (79, 17),
    "statfs": (137, 43), "fstatfs": (138, 44),
    "close": (3, 57), "close_range": (436, 436), "dup": (32, 23), "dup2": (33, None),
    "dup3": (292, 24), "flock": (73, 32), "fsync": (74, 82), "fdatasync": (75, 83),
    "ftruncate": (77, 46), "fallocate": (285, 47), "fadvise64": (221, 223),
    "mkdir": (83, None), "mkdirat": (258, 34), "rmdir": (84, None), "unlink": (87, None),
    "unlinkat": (263, 35), "rename": (82, None), "renameat": (264, 38), "renameat2": (316, 276),
    "mmap": (9, 222), "mprotect": (10, 226), "munmap": (11, 215), "mremap": (25, 216),
    "madvise": (28, 233), "msync": (26, 227), "brk": (12, 214), "membarrier": (324, 283),
    "rt_sigaction": (13, 134), "rt_sigprocmask": (14, 135), "rt_sigreturn": (15, 139),
    "sigaltstack": (131, 132), "restart_syscall": (219, 128), "setitimer": (38, 103),
    "futex": (202, 98), "set_robust_list": (273, 99), "rseq": (334, 293), "exit": (60, 93),
    "exit_group": (231, 94), "sched_yield": (24, 124), "sched_getaffinity": (204, 123),
    "getcpu": (309, 168),
    "clock_gettime": (228, 113), "clock_getres": (229, 114), "clock_nanosleep": (230, 115),
    "nanosleep": (35, 101), "gettimeofday": (96, 169), "time": (201, None), "getrusage": (98, 165),
    "times": (100, 153), "sysinfo": (99, 179), "uname": (63, 160), "getrandom": (318, 278),
    "getpid": (39, 172), "gettid": (186, 178), "getppid": (110, 173), "getuid": (102, 174),
    "geteuid": (107, 175), "getgid": (104, 176), "getegid": (108, 177),
    "poll": (7, None), "ppoll": (271, 73), "select": (23, None), "pselect6": (270, 72),
    "epoll_create1": (291, 20), "epoll_ctl": (233, 21), "epoll_wait": (232, None),
    "epoll_pwait": (281, 22), "pipe": (22, None), "pipe2": (293, 59), "eventfd2": (290, 19),
    "recvfrom": (45, 207), "recvmsg": (47, 212), "getsockopt": (55, 209), "setsockopt": (54, 208),
    "getpeername": (52, 205), "getsockname": (51, 204), "shutdown": (48, 210),
}  # fmt: skip
"""System calls that Python and the libraries of importers make. Of those that take a path, Landlock
checks all but the ones that look at the size, times and mode of a file. All others are denied: those
that start programs, open sockets, send signals, change the mode, owner, times or attributes of files,
or the scheduling of processes."""
_CLONE, _CLONE3, _OPEN, _OPENAT, _OPENAT2 = (56, 220), (435, 435), (2, None), (257, 56), (437, 437)
_FCNTL, _IOCTL, _PRCTL, _SENDTO, _SENDMSG = (72, 25), (16, 29), (157, 167), (44, 206), (46, 211)
_THREAD = 0x10000
_READ_ONLY_WITH_TRUNCATION = (0x200, 0x003, 0x203)
"""Access modes and O_TRUNC with which a kernel before 6.2 truncates a file that may only be read."""
_FAST_OPEN = 0x20000000
"""Flag of sendto and sendmsg: connects a closed TCP socket to another address."""
_FCNTL_COMMANDS = (0, 1, 2, 3, 4, 5, 6, 7, 1030)
"""Copies, flags and locks, but not F_SETOWN and F_SETSIG, which send signals."""
_IOCTL_COMMANDS = (0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451, 0x802C542A)
"""Flags of a descriptor, the bytes that wait in it, and whether it is a terminal."""
_PRCTL_COMMANDS = (15, 0x53564D41)
"""Names of threads and of memory."""


def limit_memory() -> bool:
    """Limit memory, written and open files. Returns False where this is denied."""
    return all(
        [
            _limit(resource.RLIMIT_AS, MEMORY_BYTES),
            _limit(resource.RLIMIT_FSIZE, WRITTEN_FILE_BYTES),
            _limit(resource.RLIMIT_NOFILE, OPEN_FILES),
            _limit(resource.RLIMIT_CORE, 0),
        ]
    )


def limit_time(*, export_bytes: int, scans: int = 0) -> bool:
    """Limit CPU time by the size of the export and the files whose text may be recognized.

    Returns False where this is denied.
    """
    global _cpu_limit
    _cpu_limit = CPU_SECONDS + export_bytes // CPU_BYTES_PER_SECOND + scans * CPU_SECONDS_PER_SCAN
    return _limit(resource.RLIMIT_CPU, int(_cpu_limit))


_cpu_limit = math.inf


def cpu_seconds_left() -> float:
    """Return the CPU time until this process is ended. The filter denies asking the system."""
    return max(0.0, _cpu_limit - time.process_time())


def _limit(what: int, value: int) -> bool:
    try:
        resource.setrlimit(what, (value, value))
    except (ValueError, OSError):  # a lower limit exists, or a filter of the service manager
        return resource.getrlimit(what)[1] in range(value + 1)
    return True


def restrict_files(*, readable: Iterable[Path], writable: Path) -> bool:
    """Let this process read Python, system libraries and ``readable``, and write ``writable`` only.

    Landlock also restricts TCP and signals. Returns whether the kernel enforces this.
    """
    if sys.platform != "linux":
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_DUMPABLE, 0, 0, 0, 0)
    libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    abi = libc.syscall(_LANDLOCK_CREATE, None, 0, 1)
    if abi < 1:
        return False
    rights = _FILE_RIGHTS_BY_ABI.get(abi, _ALL_FILE_RIGHTS)
    attributes = struct.pack("=QQQ", rights, _TCP_RIGHTS, _SCOPES)
    size = 24 if abi >= 6 else 16 if abi >= 4 else 8
    ruleset = libc.syscall(_LANDLOCK_CREATE, attributes, size, 0)
    if ruleset < 0:
        return False
    python = (sys.prefix, sys.base_prefix, sys.exec_prefix)
    for path in {*map(Path, (*_SYSTEM_PATHS, *python)), *readable}:
        _allow(libc, ruleset, path, _READ_FILE | _READ_DIR)
    _allow(libc, ruleset, writable, rights)
    is_restricted = bool(libc.syscall(_LANDLOCK_RESTRICT, ruleset, 0) == 0)
    os.close(ruleset)
    return is_restricted


def restrict_calls() -> bool:
    """Deny every system call that is not listed above, whatever files it would reach.

    Returns whether the kernel enforces this.
    """
    machine = _MACHINES.get(platform.machine()) if sys.platform == "linux" else None
    if machine is None:
        return False
    program = b"".join(struct.pack("=HBBI", *step) for step in _filter_program(*machine))
    buffer = ctypes.create_string_buffer(program)
    header = struct.pack("@HP", len(program) // 8, ctypes.addressof(buffer))
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    return bool(libc.prctl(_SECCOMP, _SECCOMP_FILTER, header, 0, 0) == 0)


def _allow(libc: ctypes.CDLL, ruleset: int, path: Path, rights: int) -> None:
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:  # this system has no such path
        return
    allowed = rights if path.is_dir() else rights & _READ_FILE
    libc.syscall(_LANDLOCK_ADD, ruleset, 1, struct.pack("=Qi", allowed, descriptor), 0)
    os.close(descriptor)


Step: TypeAlias = tuple[int, int, int, int]
"""Operation, steps to skip if true and if false, and value, of a BPF program."""


def _filter_program(column: int, architecture: int) -> list[Step]:
    def when(numbers: tuple[int | None, int | None], steps: list[Step]) -> list[Step]:
        """Return the steps for one system call; they end with a return."""
        number = numbers[column]
        return [] if number is None else [(_EQUAL, 0, len(steps), number), *steps]

    return [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_EQUAL, 1, 0, architecture),
        (_RETURN, 0, 0, _DENY),
        (_LOAD, 0, 0, _NUMBER),
        *chain.from_iterable(when(each, [(_RETURN, 0, 0, _ALLOW)]) for each in _ALLOWED_CALLS.values()),
        # The C library then makes the older call, whose flags can be checked.
        *when(_CLONE3, [(_RETURN, 0, 0, _MISSING)]),
        *when(_OPENAT2, [(_RETURN, 0, 0, _MISSING)]),
        *when(_CLONE, _check_bit(0, _THREAD, is_required=True)),
        *when(_SENDTO, _check_bit(3, _FAST_OPEN, is_required=False)),
        *when(_SENDMSG, _check_bit(2, _FAST_OPEN, is_required=False)),
        *when(_FCNTL, _check_value(1, _FCNTL_COMMANDS, _ALLOW, otherwise=_DENY)),
        *when(_IOCTL, _check_value(1, _IOCTL_COMMANDS, _ALLOW, otherwise=_DENY)),
        *when(_PRCTL, _check_value(0, _PRCTL_COMMANDS, _ALLOW, otherwise=_DENY)),
        *when(_OPEN, _check_access(1)),
        *when(_OPENAT, _check_access(2)),
        (_RETURN, 0, 0, _DENY),
    ]  # fmt: skip


def _load_argument(argument: int) -> Step:
    return (_LOAD, 0, 0, _FIRST_ARGUMENT + argument * _ARGUMENT_BYTES)


def _check_bit(argument: int, bit: int, *, is_required: bool) -> list[Step]:
    """Return the steps that deny a call without a required bit, or with a forbidden one."""
    if_set, if_clear = (_ALLOW, _DENY) if is_required else (_DENY, _ALLOW)
    test = (_HAS_BITS, 0, 1, bit)
    return [_load_argument(argument), test, (_RETURN, 0, 0, if_set), (_RETURN, 0, 0, if_clear)]


def _check_value(
    argument: int, values: Iterable[int], result: int, *, otherwise: int, mask: int | None = None
) -> list[Step]:
    """Return the steps that end with ``result`` if the argument, masked, is one of ``values``."""
    masked = [] if mask is None else [(_AND, 0, 0, mask)]
    tests = chain.from_iterable(
        ((_EQUAL, 0, 1, value), (_RETURN, 0, 0, result)) for value in values
    )
    return [_load_argument(argument), *masked, *tests, (_RETURN, 0, 0, otherwise)]


def _check_access(argument: int) -> list[Step]:
    return _check_value(argument, _READ_ONLY_WITH_TRUNCATION, _DENY, otherwise=_ALLOW, mask=0x203)
