"""Runs the programs of seccomp filters on single system calls, as the kernel does."""

import errno
import struct

ALLOW, KILL = 0x7FFF_0000, 0x8000_0000
EPERM, ENOSYS = 0x0005_0000 | errno.EPERM, 0x0005_0000 | errno.ENOSYS
ARCHITECTURE = {"x86_64": 0xC000_003E, "aarch64": 0xC000_00B7}


def answer(program: bytes, machine: int, number: int, *arguments: int) -> int:
    """Run a classic BPF program on one system call, as the kernel does."""
    data = struct.pack("<iIQ6Q", number, machine, 0, *(arguments + (0,) * 6)[:6])
    steps = list(struct.iter_unpack("<HBBI", program))
    place = value = 0
    while True:
        code, then, otherwise, operand = steps[place]
        place += 1
        match code:
            case 0x20:
                (value,) = struct.unpack_from("<I", data, operand)
            case 0x06:
                return operand
            case 0x15:
                place += then if value == operand else otherwise
            case 0x35:
                place += then if value >= operand else otherwise
            case 0x45:
                place += then if value & operand else otherwise
            case _:
                raise AssertionError(f"instruction {code:#x}")
