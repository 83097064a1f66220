"""Confine this process: no network, no other program, few files, limited memory and time.

A process can use a socket that it is given, but cannot connect it to another address.

Linux enforces it with rights that every account has: resource limits, Landlock for files, and a
seccomp filter for system calls. Elsewhere only the resource limits apply.
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
from collections.abc import Iterable
from pathlib import Path

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
_LOAD, _EQUAL, _AT_LEAST, _HAS_BITS, _JUMP, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x05, 0x06
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT, _ARGUMENT_BYTES = 0, 4, 16, 8
_THREAD, _X32 = 0x10000, 0x40000000
_CLONE3 = 435
_FAST_OPEN = 0x20000000
"""Flag of sendto and sendmsg: connects a closed TCP socket to another address."""
# socket, socketpair, bind, connect, listen, accept, accept4, sendmmsg; execve, execveat; ptrace, process_vm_readv and _writev; kill,
# tkill, tgkill; setrlimit, prlimit64; mount, unshare, setns; add_key, request_key, keyctl; bpf,
# perf_event_open, userfaultfd; and the calls of io_uring and pidfd.
_SHARED_DENIED = (424, 425, 434, 438)
_SYSTEM_CALLS = {
    "x86_64": (
        0xC000003E,
        (56, 44, 46),
        (
            41,
            53,
            49,
            42,
            50,
            43,
            288,
            307,
            59,
            322,
            57,
            58,
            101,
            310,
            311,
            62,
            200,
            234,
            160,
            302,
            165,
            272,
            308,
            248,
            249,
            250,
            321,
            298,
            323,
        ),
    ),
    "aarch64": (
        0xC00000B7,
        (220, 206, 211),
        (
            198,
            199,
            200,
            203,
            201,
            202,
            242,
            269,
            221,
            281,
            117,
            270,
            271,
            129,
            130,
            131,
            164,
            261,
            40,
            97,
            268,
            217,
            218,
            219,
            280,
            241,
            282,
        ),
    ),
}
"""By machine: its audit architecture, the numbers of clone, sendto and sendmsg, and those of the
denied calls."""


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

    Returns whether the kernel enforces this.
    """
    if sys.platform != "linux":
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_DUMPABLE, 0, 0, 0, 0)
    libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    return _restrict_with_landlock(libc, readable, writable)


def restrict_calls() -> bool:
    """Deny network, programs, processes and signals. Call ``restrict_files`` before.

    Returns whether the kernel enforces this.
    """
    machine = _SYSTEM_CALLS.get(platform.machine()) if sys.platform == "linux" else None
    if machine is None:
        return False
    program = b"".join(struct.pack("=HBBI", *step) for step in _filter_program(*machine))
    buffer = ctypes.create_string_buffer(program)
    header = struct.pack("@HP", len(program) // 8, ctypes.addressof(buffer))
    libc = ctypes.CDLL(None, use_errno=True)
    return bool(libc.prctl(_SECCOMP, _SECCOMP_FILTER, header, 0, 0) == 0)


def _restrict_with_landlock(libc: ctypes.CDLL, readable: Iterable[Path], writable: Path) -> bool:
    """Restrict files, TCP and signals. Returns False where the kernel lacks it."""
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


def _allow(libc: ctypes.CDLL, ruleset: int, path: Path, rights: int) -> None:
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:  # this system has no such path
        return
    allowed = rights if path.is_dir() else rights & _READ_FILE
    libc.syscall(_LANDLOCK_ADD, ruleset, 1, struct.pack("=Qi", allowed, descriptor), 0)
    os.close(descriptor)


def _filter_program(
    architecture: int, conditional: tuple[int, int, int], denied: tuple[int, ...]
) -> list[tuple[int, int, int, int]]:
    """Return the steps (operation, jump if true, jump if false, value) of a BPF program."""
    numbers = (*denied, *_SHARED_DENIED)
    clone, send_to, send_message = conditional
    steps = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_EQUAL, 1, 0, architecture),
        (_RETURN, 0, 0, _DENY),
        (_LOAD, 0, 0, _NUMBER),
        (_AT_LEAST, len(numbers) + 1, 0, _X32),
    ]
    # Each test jumps over those that remain, and over the jump below, to the denial.
    steps += [(_EQUAL, len(numbers) - at, 0, number) for at, number in enumerate(numbers)]
    return [
        *steps,
        (_JUMP, 0, 0, 1),
        (_RETURN, 0, 0, _DENY),
        (_EQUAL, 0, 1, _CLONE3),
        (_RETURN, 0, 0, _MISSING),  # the C library then uses clone, whose flags can be checked
        *_check_flag(clone, argument=0, flag=_THREAD, is_required=True),
        *_check_flag(send_to, argument=3, flag=_FAST_OPEN, is_required=False),
        *_check_flag(send_message, argument=2, flag=_FAST_OPEN, is_required=False),
        (_RETURN, 0, 0, _ALLOW),
    ]


def _check_flag(
    number: int, *, argument: int, flag: int, is_required: bool
) -> list[tuple[int, int, int, int]]:
    """Return the steps that deny a call without a required flag, or with a forbidden one."""
    return [
        (_EQUAL, 0, 4, number),
        (_LOAD, 0, 0, _FIRST_ARGUMENT + argument * _ARGUMENT_BYTES),
        (_HAS_BITS, int(is_required), int(not is_required), flag),
        (_RETURN, 0, 0, _DENY),
        (_RETURN, 0, 0, _ALLOW),
    ]
