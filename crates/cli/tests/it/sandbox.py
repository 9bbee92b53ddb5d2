"""Makes the system calls that reach beyond files and ports, and prints the result of each as JSON.

Runs inside a sandbox: sandbox.py DIRECTORY VICTIM WRITABLE PORT
"""

import ctypes
import errno
import fcntl
import json
import os
import platform
import socket
import struct
import sys

TREE, VICTIM, WRITABLE, PORT = sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
LIBC = ctypes.CDLL(None, use_errno=True)
X86 = platform.machine() == "x86_64"
RESULTS = {}


def attempt(name, action):
    """Records "done", or the name of the error."""
    try:
        action()
        RESULTS[name] = "done"
    except OSError as error:
        RESULTS[name] = errno.errorcode.get(error.errno, str(error.errno))
    except Exception as error:
        RESULTS[name] = repr(error)


def call(number, *arguments):
    """Makes the system call with this number; for two architectures (x86_64, aarch64)."""
    if isinstance(number, tuple):
        number = number[0 if X86 else 1]
    words = [ctypes.c_long(it) if isinstance(it, int) else it for it in arguments]
    result = LIBC.syscall(ctypes.c_long(number), *words)
    if result < 0:
        raise OSError(ctypes.get_errno(), "")
    return result


def call_apart(number, *arguments):
    """Makes a system call in a child, because it may change or double its process."""
    child = os.fork()
    if child == 0:
        code = 0
        try:
            call(number, *arguments)
        except OSError as error:
            code = error.errno
        os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code > 0:
        raise OSError(code, "")


def at(name):
    return os.path.join(TREE, name)


# `struct xattr_args`: the address and the length of the value, and flags.
VALUE = ctypes.create_string_buffer(b"x")
XATTR = struct.pack("QII", ctypes.addressof(VALUE), 1, 0)

# Modes, owners, times and attributes of protected files.
for name in ["seal.key", "signing.key", "toolcrib.toml", ".toolcrib", ".toolcrib/toolcrib.db", "shared/note"]:
    path = at(name)
    attempt(f"chmod {name}", lambda: os.chmod(path, 0o777))
    attempt(f"chmod 0 {name}", lambda: os.chmod(path, 0))
    attempt(f"fchmodat2 {name}", lambda: call(452, -100, path.encode(), 0o777, 0))
    attempt(f"chown {name}", lambda: os.chown(path, os.getuid(), os.getgid()))
    attempt(f"lchown {name}", lambda: os.lchown(path, os.getuid(), os.getgid()))
    attempt(f"utimes {name}", lambda: os.utime(path, (1, 1)))
    attempt(f"setxattr {name}", lambda: os.setxattr(path, "user.mark", b"x"))
    attempt(f"setxattrat {name}", lambda: call(463, -100, path.encode(), 0, b"user.mark", XATTR, 16))
    attempt(f"removexattr {name}", lambda: os.removexattr(path, "user.kept"))
    attempt(f"file_setattr {name}", lambda: call(469, -100, path.encode(), ctypes.create_string_buffer(24), 24, 0))
    if not os.path.isdir(path):
        attempt(f"truncate {name}", lambda: os.truncate(path, 0))
    attempt(f"open {name}", lambda: os.close(os.open(path, os.O_RDONLY)))
    attempt(f"rename {name}", lambda: os.rename(path, path + ".moved"))
    attempt(f"link {name}", lambda: os.link(path, os.path.join(WRITABLE, "link")))

# A file of a readable directory, through its descriptor.
note = os.open(at("shared/note"), os.O_RDONLY)
attempt("fchmod of a readable file", lambda: os.fchmod(note, 0o777))
attempt("lease on a readable file", lambda: fcntl.fcntl(note, 1024, fcntl.F_RDLCK))
for name, request in [
    ("set version", 0x40087602),
    ("set version of ext4", 0x40086604),
    ("set flags", 0x40086602),
    ("set attributes", 0x401C5820),
    ("enable verity", 0x40806685),
    ("set encryption", 0x800C6613),
]:
    attempt(f"ioctl {name}", lambda: fcntl.ioctl(note, request, bytes(128)))
attempt("fchown of a readable file", lambda: os.fchown(note, os.getuid(), os.getgid()))
attempt("futimens of a readable file", lambda: os.utime(note, (1, 1)))
attempt("fsetxattr of a readable file", lambda: os.setxattr(note, "user.mark", b"x"))

# Device nodes, and files that run as their owner.
own = os.path.join(WRITABLE, "own")
os.close(os.open(own, os.O_CREAT | os.O_WRONLY, 0o600))
attempt("mknod of a disk", lambda: os.mknod(os.path.join(WRITABLE, "disk"), 0o060600, os.makedev(254, 0)))
attempt("mknod of memory", lambda: os.mknod(os.path.join(WRITABLE, "memory"), 0o020600, os.makedev(1, 1)))
attempt("chmod setuid", lambda: os.chmod(own, 0o4755))
attempt("chmod setgid", lambda: os.chmod(own, 0o2755))
attempt("fchmodat2 setuid", lambda: call(452, -100, own.encode(), 0o4755, 0))
attempt("open setuid", lambda: os.close(os.open(own + "1", os.O_CREAT | os.O_WRONLY, 0o4755)))
attempt("open setgid without a name", lambda: os.close(os.open(WRITABLE, os.O_TMPFILE | os.O_WRONLY, 0o2755)))
attempt("mknod setuid", lambda: os.mknod(own + "2", 0o104755))
attempt("openat2", lambda: call(437, -100, b"/dev/null", ctypes.create_string_buffer(24), 24))

# Other processes.
LIMIT = (ctypes.c_ulong * 2)(1, 1)
for name, process in [("the victim", VICTIM), ("the reaper", os.getppid())]:
    attempt(f"prlimit of {name}", lambda: call((302, 261), process, 7, ctypes.byref(LIMIT), 0))
    attempt(f"kill {name}", lambda: os.kill(process, 15))
    attempt(f"rt_sigqueueinfo {name}", lambda: call((129, 138), process, 15, ctypes.create_string_buffer(128)))
    attempt(f"tgkill {name}", lambda: call((234, 131), process, process, 15))
    attempt(f"tkill {name}", lambda: call((200, 130), process, 15))
    attempt(f"pidfd_send_signal {name}", lambda: call(424, os.pidfd_open(process), 15, 0, 0))
    attempt(f"sched_setaffinity {name}", lambda: os.sched_setaffinity(process, {0}))
    attempt(f"sched_setscheduler {name}", lambda: os.sched_setscheduler(process, os.SCHED_BATCH, os.sched_param(0)))
    attempt(f"sched_setattr {name}", lambda: call((314, 274), process, ctypes.create_string_buffer(48), 0))
    attempt(f"setpriority {name}", lambda: os.setpriority(os.PRIO_PROCESS, process, 19))
    attempt(f"setpgid {name}", lambda: os.setpgid(0, os.getpgid(process)))
    attempt(f"ioprio_set {name}", lambda: call((251, 30), 1, process, 0x6000))
    attempt(f"ptrace {name}", lambda: call((101, 117), 16, process, 0, 0))
    attempt(f"process_vm_readv {name}", lambda: call((310, 270), process, 0, 0, 0, 0, 0))
    attempt(f"process_vm_writev {name}", lambda: call((311, 271), process, 0, 0, 0, 0, 0))
    attempt(f"pidfd_getfd {name}", lambda: call(438, os.pidfd_open(process), 0, 0))
    attempt(f"kcmp {name}", lambda: call((312, 272), process, os.getpid(), 1, 0, 0))
    attempt(f"migrate_pages {name}", lambda: call((256, 238), process, 0, 0, 0))
attempt("setpriority of the user", lambda: os.setpriority(os.PRIO_USER, 0, 19))
attempt("ioprio_set of the user", lambda: call((251, 30), 3, 0, 0x6000))

# Namespaces, mounts, and the kernel.
for name, number, arguments in [
    ("unshare", (272, 97), (0x10000000,)),
    ("unshare of mounts", (272, 97), (0x00020000,)),
    ("setns", (308, 268), (0, 0)),
    ("clone with a user namespace", (56, 220), (0x10000000 | 17, 0, 0, 0, 0)),
    ("clone3", 435, (ctypes.create_string_buffer(88), 88)),
    ("mount", (165, 40), (b"none", b"/mnt", b"tmpfs", 0, 0)),
    ("umount2", (166, 39), (b"/proc", 2)),
    ("pivot_root", (155, 41), (b"/", b"/")),
    ("chroot", (161, 51), (b"/",)),
    ("move_mount", 429, (-1, b"", -1, b"", 0)),
    ("open_tree", 428, (-100, b"/", 1)),
    ("mount_setattr", 442, (-100, b"/", 0x8000, ctypes.create_string_buffer(32), 32)),
    ("fsopen", 430, (b"tmpfs", 0)),
    ("open_by_handle_at", (304, 265), (-100, ctypes.create_string_buffer(16), 0)),
    ("fanotify_init", (300, 262), (0, 0)),
    ("add_key", (248, 217), (b"user", b"a", b"b", 1, -3)),
    ("request_key", (249, 218), (b"user", b"a", 0, -3)),
    ("keyctl", (250, 219), (0, -3, 0)),
    ("bpf", (321, 280), (0, 0, 0)),
    ("perf_event_open", (298, 241), (ctypes.create_string_buffer(128), 0, -1, -1, 0)),
    ("userfaultfd", (323, 282), (0,)),
    ("init_module", (175, 105), (0, 0, b"")),
    ("finit_module", (313, 273), (0, b"", 0)),
    ("delete_module", (176, 106), (b"x", 0)),
    ("kexec_load", (246, 104), (0, 0, 0, 0)),
    ("io_uring_setup", 425, (1, ctypes.create_string_buffer(120))),
    ("io_uring_enter", 426, (0, 0, 0, 0, 0)),
    ("io_uring_register", 427, (0, 0, 0, 0)),
    ("shmget", (29, 194), (1234, 4096, 0o1666)),
    ("semget", (64, 190), (1234, 1, 0o1666)),
    ("msgget", (68, 186), (1234, 0o1666)),
    ("mq_open", (240, 180), (b"toolcrib", 0o102, 0o600, 0)),
    ("a call of the future", 600, ()),
]:
    attempt(name, lambda: call_apart(number, *arguments))
if X86:
    attempt("a call of x32", lambda: call(0x40000000 | 39))

# Sockets of other kinds than TCP, and listeners outside of the sandbox.
def connect(protocol):
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, protocol) as stream:
        stream.connect(("127.0.0.1", PORT))

def connect_while_sending():
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as stream:
        stream.sendto(b"x", 0x20000000, ("127.0.0.1", PORT))

def connect_abstract():
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as stream:
        stream.connect(f"\0toolcrib-{VICTIM}")

attempt("connect", lambda: connect(0))
attempt("connect with MPTCP", lambda: connect(262))
attempt("connect with SCTP", lambda: connect(132))
attempt("connect while sending", connect_while_sending)
attempt("connect to an abstract socket", connect_abstract)
attempt("socket of a virtual machine", lambda: socket.socket(40, socket.SOCK_STREAM).close())
attempt("socket of kernel cryptography", lambda: socket.socket(38, 5).close())

# Allowed: changes in its own directory, of its own processes and limits.
def own_child():
    child = os.fork()
    if child == 0:
        while True:
            os.sched_yield()
    os.kill(child, 9)
    os.waitpid(child, 0)

def own_file():
    with open(own, "w") as file:
        file.write("x")

ALLOWED = {
    "write an own file": own_file,
    "end an own child": own_child,
    "lower an own limit": lambda: call((302, 261), 0, 7, ctypes.byref((ctypes.c_ulong * 2)(64, 64)), 0),
    "be nice": lambda: os.nice(1),
    "choose a processor": lambda: os.sched_setaffinity(0, {min(os.sched_getaffinity(0))}),
    "make a pipe with a name": lambda: os.mkfifo(own + "-pipe"),
    "make a directory": lambda: os.mkdir(own + "-directory"),
}
METADATA = {
    "chmod an own file": lambda: os.chmod(own, 0o755),
    "fchmod an own file": lambda: os.fchmod(os.open(own, os.O_RDONLY), 0o711),
    "change the time of an own file": lambda: os.utime(own, (1, 1)),
    "chown an own file": lambda: os.chown(own, os.getuid(), os.getgid()),
}
for name, action in {**ALLOWED, **METADATA}.items():
    attempt(name, action)

STATUS = {}
try:
    capabilities = (ctypes.c_uint32 * 6)()
    LIBC.capget((ctypes.c_uint32 * 2)(0x20080522, 0), capabilities)
    STATUS["capabilities"] = list(capabilities)
    # PR_CAPBSET_READ, PR_GET_NO_NEW_PRIVS
    STATUS["bounding"] = [cap for cap in range(64) if LIBC.prctl(23, cap, 0, 0, 0) == 1]
    STATUS["no_new_privs"] = LIBC.prctl(39, 0, 0, 0, 0)
finally:
    print(json.dumps({
        "results": RESULTS, "allowed": list(ALLOWED), "metadata": list(METADATA),
        "user": os.getuid(), **STATUS,
    }))
