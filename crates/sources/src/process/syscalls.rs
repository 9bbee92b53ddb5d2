//! The seccomp filter of a confined program: refuses system calls that reach beyond its files,
//! ports and processes, and that Landlock does not restrict.
//!
//! Invariant: a system call that this file does not know is refused, and so is every call of
//! another architecture (32-bit programs and x32).

use std::{collections::BTreeMap, env::consts::ARCH};

use libc::c_long;
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition,
    SeccompFilter, SeccompRule, TargetArch, apply_filter, sock_filter,
};

use super::launch::MetadataGuard;

/// The newest call that this file knows: `file_setattr`.
const NEWEST: u32 = 469;

// Calls that `libc` does not name yet. Their numbers are the same on all architectures.
const SETXATTRAT: c_long = 463;
const REMOVEXATTRAT: c_long = 466;
const OPEN_TREE_ATTR: c_long = 467;
const FILE_SETATTR: c_long = 469;
const FCHMODAT2: c_long = 452;

/// Calls that fail with `ENOSYS`, as if unknown: their arguments are in memory, where a filter
/// cannot see them, and programs then use the older call.
const UNKNOWN: &[c_long] = &[
    libc::SYS_clone3,
    libc::SYS_openat2,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
];

/// Calls that are always refused.
const REFUSED: &[c_long] = &[
    // Other processes.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_process_mrelease,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    // Namespaces and mounts.
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    OPEN_TREE_ATTR,
    libc::SYS_mount_setattr,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    // Files by number, and events of the whole system.
    libc::SYS_open_by_handle_at,
    libc::SYS_fanotify_init,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_acct,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    // Keys, objects and code of the kernel.
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_kexec_file_load,
    libc::SYS_reboot,
    libc::SYS_syslog,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_iopl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ioperm,
    // Memory, semaphores and queues that all processes of the user share.
    libc::SYS_shmget,
    libc::SYS_shmat,
    libc::SYS_shmctl,
    libc::SYS_semget,
    libc::SYS_semop,
    libc::SYS_semtimedop,
    libc::SYS_semctl,
    libc::SYS_msgget,
    libc::SYS_msgsnd,
    libc::SYS_msgrcv,
    libc::SYS_msgctl,
    libc::SYS_mq_open,
    libc::SYS_mq_unlink,
];

/// Calls that change modes, owners, times and attributes of files.
const METADATA: &[c_long] = &[
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chmod,
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    FCHMODAT2,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chown,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_lchown,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_utime,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_utimes,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_futimesat,
    libc::SYS_utimensat,
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_fsetxattr,
    SETXATTRAT,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    libc::SYS_fremovexattr,
    REMOVEXATTRAT,
    FILE_SETATTR,
];

/// Flags of `clone` that create a namespace.
const NAMESPACES: &[i32] = &[
    libc::CLONE_NEWNS,
    libc::CLONE_NEWCGROUP,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
];

/// The types of `ioctl` requests to file systems, which change attributes of files: `f` (most of
/// them, encryption and verity too), `v` (versions), `X` (XFS, and attributes of all), and those of
/// Btrfs and F2FS. A descriptor for reading suffices for some.
const FILE_SYSTEM: [u64; 5] = [0x66, 0x76, 0x58, 0x94, 0xf5];
/// `TIOCSTI` and `TIOCLINUX`: input of a terminal.
const TERMINAL: [u64; 2] = [0x5412, 0x541c];

/// `MSG_FASTOPEN`: connects while sending, which Landlock does not see.
const FAST_OPEN: u64 = 0x2000_0000;

/// The bits of a mode that make a program run as the owner or group of its file.
const SET_ID: [u64; 2] = [libc::S_ISUID as u64, libc::S_ISGID as u64];

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// Filters the system calls of this process, irrevocably. `guard` says what keeps the metadata of
/// files unchanged.
pub(super) fn restrict(guard: MetadataGuard) -> Result<(), String> {
    let programs = programs(guard).map_err(|error| error.to_string())?;
    for program in programs {
        apply_filter(&program).map_err(|error| format!("seccomp: {error}"))?;
    }
    Ok(())
}

/// The kernel runs all of the programs, and the strictest result counts.
fn programs(guard: MetadataGuard) -> Result<[BpfProgram; 3], BackendError> {
    let architecture = TargetArch::try_from(ARCH)?;
    let program = |rules: Rules, errno: i32| -> Result<BpfProgram, BackendError> {
        let refusal = SeccompAction::Errno(errno.unsigned_abs());
        SeccompFilter::new(rules, SeccompAction::Allow, refusal, architecture)?.try_into()
    };
    let unknown = UNKNOWN.iter().map(|call| (number(*call), Vec::new())).collect();
    Ok([newer(), program(unknown, libc::ENOSYS)?, program(refused(guard)?, libc::EPERM)?])
}

/// Refuses calls with a higher number than [`NEWEST`], and those of x32, whose numbers are higher.
fn newer() -> BpfProgram {
    let statement = |code, k| sock_filter { code, jt: 0, jf: 0, k };
    let jump = |code, k, jt, jf| sock_filter { code, jt, jf, k };
    let refusal = SeccompAction::Errno(libc::ENOSYS.unsigned_abs());
    let code = |code: u32| u16::try_from(code).unwrap_or_default();
    vec![
        statement(code(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS), 0),
        jump(code(libc::BPF_JMP | libc::BPF_JGT | libc::BPF_K), NEWEST, 0, 1),
        statement(code(libc::BPF_RET | libc::BPF_K), refusal.into()),
        statement(code(libc::BPF_RET | libc::BPF_K), SeccompAction::Allow.into()),
    ]
}

/// The calls that fail with `EPERM`, some only with certain arguments.
fn refused(guard: MetadataGuard) -> Result<Rules, BackendError> {
    let mut rules = Rules::new();
    modes(&mut rules)?;
    others(&mut rules)?;
    sockets(&mut rules)?;
    for flag in NAMESPACES {
        add(&mut rules, libc::SYS_clone, vec![has(0, u64::from(flag.unsigned_abs()))?])?;
    }
    // A lease on a file opened for reading stops its writers.
    let lease = u64::from(libc::F_SETLEASE.unsigned_abs());
    add(&mut rules, libc::SYS_fcntl, vec![is(1, lease)?])?;
    for request in TERMINAL {
        add(&mut rules, libc::SYS_ioctl, vec![is(1, request)?])?;
    }
    let metadata = match guard {
        MetadataGuard::ReadOnlyMounts => &[],
        MetadataGuard::SystemCalls => {
            for kind in FILE_SYSTEM {
                let is_kind = condition(1, SeccompCmpOp::MaskedEq(0xff00), kind << 8)?;
                add(&mut rules, libc::SYS_ioctl, vec![is_kind])?;
            }
            METADATA
        }
    };
    // Without conditions a call is always refused, whatever was added before.
    rules.extend(REFUSED.iter().chain(metadata).map(|call| (number(*call), Vec::new())));
    Ok(rules)
}

/// Device nodes, and files that run as their owner.
fn modes(rules: &mut Rules) -> Result<(), BackendError> {
    // The position of the mode.
    let chmods = [
        #[cfg(target_arch = "x86_64")]
        (libc::SYS_chmod, 1),
        #[cfg(target_arch = "x86_64")]
        (libc::SYS_creat, 1),
        (libc::SYS_fchmod, 1),
        (libc::SYS_fchmodat, 2),
        (FCHMODAT2, 2),
    ];
    let nodes = [
        #[cfg(target_arch = "x86_64")]
        (libc::SYS_mknod, 1),
        (libc::SYS_mknodat, 2),
    ];
    // The position of the flags; the mode follows, and counts only for a new file.
    let opens = [
        #[cfg(target_arch = "x86_64")]
        (libc::SYS_open, 1),
        (libc::SYS_openat, 2),
    ];
    for bit in SET_ID {
        for (call, mode) in chmods.into_iter().chain(nodes) {
            add(rules, call, vec![has(mode, bit)?])?;
        }
        for (call, flags) in opens {
            // `O_TMPFILE` without the bit of `O_DIRECTORY` that it includes.
            for new in [libc::O_CREAT, libc::O_TMPFILE & !libc::O_DIRECTORY] {
                let new = has(flags, u64::from(new.unsigned_abs()))?;
                add(rules, call, vec![new, has(flags + 1, bit)?])?;
            }
        }
    }
    for (call, mode) in nodes {
        for kind in [libc::S_IFCHR, libc::S_IFBLK] {
            let is_kind =
                condition(mode, SeccompCmpOp::MaskedEq(libc::S_IFMT.into()), kind.into())?;
            add(rules, call, vec![is_kind])?;
        }
    }
    Ok(())
}

/// Limits, priorities and placement of other processes.
fn others(rules: &mut Rules) -> Result<(), BackendError> {
    for call in [
        libc::SYS_sched_setaffinity,
        libc::SYS_sched_setscheduler,
        libc::SYS_sched_setparam,
        libc::SYS_sched_setattr,
        libc::SYS_move_pages,
        libc::SYS_migrate_pages,
    ] {
        add(rules, call, vec![is_not(0, 0)?])?;
    }
    // Reading the limits of another process is harmless.
    let new_limit = SeccompCondition::new(2, SeccompCmpArgLen::Qword, SeccompCmpOp::Ne, 0)?;
    add(rules, libc::SYS_prlimit64, vec![is_not(0, 0)?, new_limit])?;
    // The first argument says whether the second is a process, a group or a user. 0 is this process
    // or its group, but as a user it means all processes of this user.
    for (call, user) in [(libc::SYS_setpriority, 2), (libc::SYS_ioprio_set, 3)] {
        add(rules, call, vec![is_not(1, 0)?])?;
        add(rules, call, vec![is(0, user)?])?;
    }
    Ok(())
}

/// Sockets that Landlock's rules for TCP do not cover.
fn sockets(rules: &mut Rules) -> Result<(), BackendError> {
    let [unix, inet, inet6, netlink] =
        [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK]
            .map(|family| u64::from(family.unsigned_abs()));
    let other: Result<Vec<_>, _> =
        [unix, inet, inet6, netlink].into_iter().map(|family| is_not(0, family)).collect();
    add(rules, libc::SYS_socket, other?)?;
    let protocols =
        [0, libc::IPPROTO_TCP, libc::IPPROTO_UDP, libc::IPPROTO_ICMP, libc::IPPROTO_ICMPV6];
    for family in [inet, inet6] {
        // Multipath TCP, SCTP and others connect to the same ports.
        let other = protocols.iter().map(|known| is_not(2, u64::from(known.unsigned_abs())));
        let other: Result<Vec<_>, _> = [is(0, family)].into_iter().chain(other).collect();
        add(rules, libc::SYS_socket, other?)?;
    }
    for (call, flags) in [(libc::SYS_sendto, 3), (libc::SYS_sendmsg, 2), (libc::SYS_sendmmsg, 3)] {
        add(rules, call, vec![has(flags, FAST_OPEN)?])?;
    }
    Ok(())
}

/// Refuses `call` when all `conditions` hold.
fn add(
    rules: &mut Rules,
    call: c_long,
    conditions: Vec<SeccompCondition>,
) -> Result<(), BackendError> {
    rules.entry(number(call)).or_default().push(SeccompRule::new(conditions)?);
    Ok(())
}

#[expect(clippy::useless_conversion, reason = "the types differ between architectures")]
fn number(call: c_long) -> i64 {
    call.into()
}

/// All arguments here are 32 bits wide for the kernel, which ignores the others.
fn condition(
    argument: u8,
    operator: SeccompCmpOp,
    value: u64,
) -> Result<SeccompCondition, BackendError> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value)
}

fn is(argument: u8, value: u64) -> Result<SeccompCondition, BackendError> {
    condition(argument, SeccompCmpOp::Eq, value)
}

fn is_not(argument: u8, value: u64) -> Result<SeccompCondition, BackendError> {
    condition(argument, SeccompCmpOp::Ne, value)
}

/// The argument has this bit.
fn has(argument: u8, bit: u64) -> Result<SeccompCondition, BackendError> {
    condition(argument, SeccompCmpOp::MaskedEq(bit), bit)
}
