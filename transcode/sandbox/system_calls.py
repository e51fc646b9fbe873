"""Every system call of Linux, by its numbers, and what an engine may do with it.

The list is of what is allowed, with the reason; everything else is named as well, so that a call is
either known and denied (EPERM), or newer than this list and answered as if the kernel did not have
it (ENOSYS). `transcode.sandbox.seccomp` makes filters of it, and docs/sandbox.md shows it. What the
decoders and encoders call was traced in engines of all kinds; a call that the C library of another
system makes as well is allowed if it touches nothing but the process itself.

Sources: Linux's arch/x86/entry/syscalls/syscall_64.tbl and scripts/syscall.tbl (include/uapi/
asm-generic/unistd.h before 6.11), up to Linux 6.19; calls have the same numbers on all machines
since 424. A test compares them with the headers of the machine that it runs on.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Final, NamedTuple

_NONE: Final = -1  # a call that a machine does not have


class Rule(Enum):
    """What an engine may do with a system call."""

    ALLOWED = "allowed"
    CHECKED = "allowed for some arguments"
    OPENING = "opens files, for reading alone"
    CHANGING = "changes files: denied"
    DENIED = "denied"
    MISSING = "answered as missing"


class SystemCall(NamedTuple):
    """A system call; `numbers` are those of x86_64 and aarch64, -1 if the machine has none.

    `why` says what it is allowed or denied for.
    """

    name: str
    numbers: tuple[int, int]
    rule: Rule
    why: str


def _calls(rule: Rule, why: str, numbers: Mapping[str, tuple[int, int]]) -> dict[str, SystemCall]:
    return {name: SystemCall(name, pair, rule, why) for name, pair in numbers.items()}


SYSTEM_CALLS: Final[Mapping[str, SystemCall]] = {
    **_calls(Rule.ALLOWED, "reads and writes what is open", {
        "read": (0, 63), "write": (1, 64), "readv": (19, 65), "writev": (20, 66),
        "pread64": (17, 67), "pwrite64": (18, 68), "preadv": (295, 69), "pwritev": (296, 70),
        "preadv2": (327, 286), "pwritev2": (328, 287), "lseek": (8, 62), "close": (3, 57),
        "close_range": (436, 436), "dup": (32, 23), "dup2": (33, _NONE), "dup3": (292, 24),
        "pipe": (22, _NONE), "pipe2": (293, 59), "poll": (7, _NONE), "ppoll": (271, 73),
        "select": (23, _NONE), "pselect6": (270, 72), "fadvise64": (221, 223),
    }),
    **_calls(Rule.ALLOWED, "facts about files, asked before one is opened", {
        "stat": (4, _NONE), "lstat": (6, _NONE), "fstat": (5, 80), "newfstatat": (262, 79),
        "statx": (332, 291), "access": (21, _NONE), "faccessat": (269, 48),
        "faccessat2": (439, 439), "readlink": (89, _NONE), "readlinkat": (267, 78),
        "getcwd": (79, 17), "getdents64": (217, 61),
    }),
    **_calls(Rule.ALLOWED, "its own memory", {
        "mmap": (9, 222), "munmap": (11, 215), "mremap": (25, 216), "mprotect": (10, 226),
        "madvise": (28, 233), "brk": (12, 214),
    }),
    **_calls(Rule.ALLOWED, "its threads, which decoders and encoders start", {
        "exit": (60, 93), "exit_group": (231, 94), "futex": (202, 98),
        "set_robust_list": (273, 99), "get_robust_list": (274, 100), "rseq": (334, 293),
        "set_tid_address": (218, 96), "gettid": (186, 178), "sched_yield": (24, 124),
        "sched_getaffinity": (204, 123), "sched_getscheduler": (145, 120),
        "sched_getparam": (143, 121), "sched_get_priority_max": (146, 125),
        "sched_get_priority_min": (147, 126), "getcpu": (309, 168), "restart_syscall": (219, 128),
    }),
    **_calls(Rule.ALLOWED, "signals that it gets", {
        "rt_sigaction": (13, 134), "rt_sigprocmask": (14, 135), "rt_sigreturn": (15, 139),
        "sigaltstack": (131, 132),
    }),
    **_calls(Rule.ALLOWED, "time", {
        "clock_gettime": (228, 113), "clock_getres": (229, 114), "clock_nanosleep": (230, 115),
        "nanosleep": (35, 101), "gettimeofday": (96, 169), "time": (201, _NONE),
        "times": (100, 153),
    }),
    **_calls(Rule.ALLOWED, "facts about itself and the machine, and random numbers", {
        "getpid": (39, 172), "getppid": (110, 173), "getuid": (102, 174), "geteuid": (107, 175),
        "getgid": (104, 176), "getegid": (108, 177), "getrusage": (98, 165),
        "getrlimit": (97, 163), "getpriority": (140, 141), "uname": (63, 160),
        "sysinfo": (99, 179), "getrandom": (318, 278),
    }),
    **_calls(Rule.CHECKED, "threads alone, no processes", {
        "clone": (56, 220),
    }),
    **_calls(Rule.CHECKED, "signals to itself alone, as `abort()` sends", {
        "kill": (62, 129), "tgkill": (234, 131),
    }),
    **_calls(Rule.CHECKED, "its own limits, which it lowers further", {
        "prlimit64": (302, 261),
    }),
    **_calls(Rule.CHECKED, "its own priority, which it lowers", {
        "setpriority": (141, 140),
    }),
    **_calls(Rule.CHECKED, "copies and flags of descriptors; no locks, nobody gets their signals", {
        "fcntl": (72, 25),
    }),
    **_calls(Rule.CHECKED, "whether a descriptor is a terminal, how much it holds, and its flags", {
        "ioctl": (16, 29),
    }),
    **_calls(Rule.CHECKED, "the names of threads and memory, and further restrictions", {
        "prctl": (157, 167),
    }),
    **_calls(Rule.CHECKED, "further filters, which can only take more away", {
        "seccomp": (317, 277),
    }),
    **_calls(Rule.OPENING, "for reading alone; not at all in engines that need no file", {
        "open": (2, _NONE), "openat": (257, 56),
    }),
    **_calls(Rule.CHANGING, "changes files", {
        "creat": (85, _NONE), "truncate": (76, 45), "ftruncate": (77, 46), "fallocate": (285, 47),
        "unlink": (87, _NONE), "unlinkat": (263, 35), "rmdir": (84, _NONE), "rename": (82, _NONE),
        "renameat": (264, 38), "renameat2": (316, 276), "link": (86, _NONE), "linkat": (265, 37),
        "symlink": (88, _NONE), "symlinkat": (266, 36), "mkdir": (83, _NONE), "mkdirat": (258, 34),
        "mknod": (133, _NONE), "mknodat": (259, 33), "chmod": (90, _NONE), "fchmod": (91, 52),
        "fchmodat": (268, 53), "fchmodat2": (452, 452), "chown": (92, _NONE),
        "lchown": (94, _NONE), "fchown": (93, 55), "fchownat": (260, 54), "setxattr": (188, 5),
        "lsetxattr": (189, 6), "fsetxattr": (190, 7), "setxattrat": (463, 463),
        "removexattr": (197, 14), "lremovexattr": (198, 15), "fremovexattr": (199, 16),
        "removexattrat": (466, 466), "file_setattr": (469, 469), "utime": (132, _NONE),
        "utimes": (235, _NONE), "futimesat": (261, _NONE), "utimensat": (280, 88),
    }),
    **_calls(Rule.MISSING, "newer form of a call that is allowed, which callers fall back to", {
        "clone3": (435, 435), "openat2": (437, 437), "futex_waitv": (449, 449),
        "futex_wake": (454, 454), "futex_wait": (455, 455), "futex_requeue": (456, 456),
        "cachestat": (451, 451), "mseal": (462, 462), "map_shadow_stack": (453, 453),
    }),
    **_calls(Rule.DENIED, "network and other sockets", {
        "socket": (41, 198), "socketpair": (53, 199), "connect": (42, 203), "bind": (49, 200),
        "listen": (50, 201), "accept": (43, 202), "accept4": (288, 242), "sendto": (44, 206),
        "sendmsg": (46, 211), "sendmmsg": (307, 269), "recvfrom": (45, 207), "recvmsg": (47, 212),
        "recvmmsg": (299, 243), "getsockname": (51, 204), "getpeername": (52, 205),
        "setsockopt": (54, 208), "getsockopt": (55, 209), "shutdown": (48, 210),
    }),
    **_calls(Rule.DENIED, "asynchronous input and output, past this filter", {
        "io_uring_setup": (425, 425), "io_uring_enter": (426, 426),
        "io_uring_register": (427, 427), "io_setup": (206, 0), "io_destroy": (207, 1),
        "io_submit": (209, 2), "io_cancel": (210, 3), "io_getevents": (208, 4),
        "io_pgetevents": (333, 292),
    }),
    **_calls(Rule.DENIED, "processes and programs", {
        "fork": (57, _NONE), "vfork": (58, _NONE), "execve": (59, 221), "execveat": (322, 281),
        "wait4": (61, 260), "waitid": (247, 95),
    }),
    **_calls(Rule.DENIED, "memory, signals and files of other processes", {
        "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271),
        "process_madvise": (440, 440), "process_mrelease": (448, 448), "kcmp": (312, 272),
        "tkill": (200, 130), "rt_sigqueueinfo": (129, 138), "rt_tgsigqueueinfo": (297, 240),
        "pidfd_open": (434, 434), "pidfd_getfd": (438, 438), "pidfd_send_signal": (424, 424),
        "migrate_pages": (256, 238), "move_pages": (279, 239),
    }),
    **_calls(Rule.DENIED, "the group and session by which its parent's signals reach it", {
        "setpgid": (109, 154), "setsid": (112, 157), "getpgid": (121, 155),
        "getpgrp": (111, _NONE), "getsid": (124, 156),
    }),
    **_calls(Rule.DENIED, "users, groups and rights", {
        "setuid": (105, 146), "setgid": (106, 144), "setreuid": (113, 145), "setregid": (114, 143),
        "setresuid": (117, 147), "setresgid": (119, 149), "setfsuid": (122, 151),
        "setfsgid": (123, 152), "setgroups": (116, 159), "getgroups": (115, 158),
        "getresuid": (118, 148), "getresgid": (120, 150), "capget": (125, 90), "capset": (126, 91),
        "umask": (95, 166), "personality": (135, 92),
    }),
    **_calls(Rule.DENIED, "name spaces, mounts and file systems", {
        "unshare": (272, 97), "setns": (308, 268), "listns": (470, 470), "chroot": (161, 51),
        "pivot_root": (155, 41), "mount": (165, 40), "umount2": (166, 39), "fsopen": (430, 430),
        "fsconfig": (431, 431), "fsmount": (432, 432), "fspick": (433, 433),
        "move_mount": (429, 429), "open_tree": (428, 428), "open_tree_attr": (467, 467),
        "mount_setattr": (442, 442), "statmount": (457, 457), "listmount": (458, 458),
        "quotactl": (179, 60), "quotactl_fd": (443, 443), "statfs": (137, 43),
        "fstatfs": (138, 44), "ustat": (136, _NONE), "sysfs": (139, _NONE),
    }),
    **_calls(Rule.DENIED, "files by another way than a name, and their attributes", {
        "open_by_handle_at": (304, 265), "name_to_handle_at": (303, 264), "getxattr": (191, 8),
        "lgetxattr": (192, 9), "fgetxattr": (193, 10), "getxattrat": (464, 464),
        "listxattr": (194, 11), "llistxattr": (195, 12), "flistxattr": (196, 13),
        "listxattrat": (465, 465), "file_getattr": (468, 468), "getdents": (78, _NONE),
        "lookup_dcookie": (212, 18),
    }),
    **_calls(Rule.DENIED, "notices about files", {
        "inotify_init": (253, _NONE), "inotify_init1": (294, 26), "inotify_add_watch": (254, 27),
        "inotify_rm_watch": (255, 28), "fanotify_init": (300, 262), "fanotify_mark": (301, 263),
    }),
    **_calls(Rule.DENIED, "folders it is in, locks, and writing back to disks", {
        "chdir": (80, 49), "fchdir": (81, 50), "flock": (73, 32), "sync": (162, 81),
        "syncfs": (306, 267), "fsync": (74, 82), "fdatasync": (75, 83),
        "sync_file_range": (277, 84), "readahead": (187, 213),
    }),
    **_calls(Rule.DENIED, "copies within the kernel", {
        "sendfile": (40, 71), "splice": (275, 76), "tee": (276, 77), "vmsplice": (278, 75),
        "copy_file_range": (326, 285),
    }),
    **_calls(Rule.DENIED, "memory, messages and semaphores that processes share", {
        "shmget": (29, 194), "shmat": (30, 196), "shmctl": (31, 195), "shmdt": (67, 197),
        "msgget": (68, 186), "msgsnd": (69, 189), "msgrcv": (70, 188), "msgctl": (71, 187),
        "semget": (64, 190), "semop": (65, 193), "semctl": (66, 191), "semtimedop": (220, 192),
        "mq_open": (240, 180), "mq_unlink": (241, 181), "mq_timedsend": (242, 182),
        "mq_timedreceive": (243, 183), "mq_notify": (244, 184), "mq_getsetattr": (245, 185),
        "memfd_create": (319, 279), "memfd_secret": (447, 447),
    }),
    **_calls(Rule.DENIED, "kinds of memory that decoders do not need", {
        "modify_ldt": (154, _NONE), "set_thread_area": (205, _NONE),
        "get_thread_area": (211, _NONE), "arch_prctl": (158, _NONE), "pkey_mprotect": (329, 288),
        "pkey_alloc": (330, 289), "pkey_free": (331, 290), "mlock": (149, 228),
        "mlock2": (325, 284), "mlockall": (151, 230), "munlock": (150, 229),
        "munlockall": (152, 231), "msync": (26, 227), "mincore": (27, 232),
        "remap_file_pages": (216, 234), "mbind": (237, 235), "get_mempolicy": (239, 236),
        "set_mempolicy": (238, 237), "set_mempolicy_home_node": (450, 450),
        "userfaultfd": (323, 282), "membarrier": (324, 283),
    }),
    **_calls(Rule.DENIED, "descriptors for events, timers and signals", {
        "epoll_create": (213, _NONE), "epoll_create1": (291, 20), "epoll_ctl": (233, 21),
        "epoll_wait": (232, _NONE), "epoll_pwait": (281, 22), "epoll_pwait2": (441, 441),
        "epoll_ctl_old": (214, _NONE), "epoll_wait_old": (215, _NONE), "eventfd": (284, _NONE),
        "eventfd2": (290, 19), "signalfd": (282, _NONE), "signalfd4": (289, 74),
        "timerfd_create": (283, 85), "timerfd_settime": (286, 86), "timerfd_gettime": (287, 87),
    }),
    **_calls(Rule.DENIED, "timers, and waiting for signals", {
        "alarm": (37, _NONE), "pause": (34, _NONE), "getitimer": (36, 102), "setitimer": (38, 103),
        "timer_create": (222, 107), "timer_settime": (223, 110), "timer_gettime": (224, 108),
        "timer_getoverrun": (225, 109), "timer_delete": (226, 111), "rt_sigpending": (127, 136),
        "rt_sigsuspend": (130, 133), "rt_sigtimedwait": (128, 137),
    }),
    **_calls(Rule.DENIED, "where and when work runs, its own included", {
        "sched_setparam": (142, 118), "sched_setscheduler": (144, 119),
        "sched_setattr": (314, 274), "sched_getattr": (315, 275), "sched_setaffinity": (203, 122),
        "sched_rr_get_interval": (148, 127), "ioprio_set": (251, 30), "ioprio_get": (252, 31),
    }),
    **_calls(Rule.DENIED, "its own limits: callers use `prlimit64`", {
        "setrlimit": (160, 164),
    }),
    **_calls(Rule.DENIED, "the machine: its clock, name, accounts, devices, log and power", {
        "settimeofday": (164, 170), "clock_settime": (227, 112), "adjtimex": (159, 171),
        "clock_adjtime": (305, 266), "sethostname": (170, 161), "setdomainname": (171, 162),
        "acct": (163, 89), "swapon": (167, 224), "swapoff": (168, 225), "reboot": (169, 142),
        "syslog": (103, 116), "iopl": (172, _NONE), "ioperm": (173, _NONE), "vhangup": (153, 58),
    }),
    **_calls(Rule.DENIED, "the kernel: its modules, keys, programs and rules", {
        "init_module": (175, 105), "finit_module": (313, 273), "delete_module": (176, 106),
        "kexec_load": (246, 104), "kexec_file_load": (320, 294), "bpf": (321, 280),
        "perf_event_open": (298, 241), "keyctl": (250, 219), "add_key": (248, 217),
        "request_key": (249, 218), "landlock_create_ruleset": (444, 444),
        "landlock_add_rule": (445, 445), "landlock_restrict_self": (446, 446),
        "lsm_get_self_attr": (459, 459), "lsm_set_self_attr": (460, 460),
        "lsm_list_modules": (461, 461),
    }),
    **_calls(Rule.DENIED, "probes of a debugger, which the kernel answers past all filters", {
        "uretprobe": (335, _NONE), "uprobe": (336, _NONE),
    }),
    **_calls(Rule.DENIED, "calls that Linux has no more", {
        "uselib": (134, _NONE), "create_module": (174, _NONE), "get_kernel_syms": (177, _NONE),
        "query_module": (178, _NONE), "nfsservctl": (180, 42), "getpmsg": (181, _NONE),
        "putpmsg": (182, _NONE), "afs_syscall": (183, _NONE), "tuxcall": (184, _NONE),
        "security": (185, _NONE), "vserver": (236, _NONE), "_sysctl": (156, _NONE),
    }),
}  # fmt: skip
