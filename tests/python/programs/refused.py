# SPDX-License-Identifier: Apache-2.0
"""Forbids itself process_vm_readv, as container runtimes do, and trains: python refused.py [what stub_train takes]."""

import ctypes
import struct
import sys

import stub_train

PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
LOAD_WORD, JUMP_IF_EQUAL, RETURN = 0x20, 0x15, 0x06
PROCESS_VM_READV, ALLOW, REFUSE = 310, 0x7FFF0000, 0x00050000 | 1  # EPERM


def instruction(code, value, if_true=0, if_false=0):
    return struct.pack("HBBI", code, if_true, if_false, value)


code = instruction(LOAD_WORD, 0) + instruction(JUMP_IF_EQUAL, PROCESS_VM_READV, 0, 1)
code += instruction(RETURN, REFUSE) + instruction(RETURN, ALLOW)
instructions = ctypes.create_string_buffer(code, len(code))
program = struct.pack("HxxxxxxP", len(code) // 8, ctypes.addressof(instructions))
libc = ctypes.CDLL(None)
assert libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
assert libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, program, 0, 0) == 0
stub_train.main(sys.argv[1:])
