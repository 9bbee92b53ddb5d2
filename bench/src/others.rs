//! The processor time of programs that do not belong to a measurement, and of the host.
//!
//! Figures count only if others did little meanwhile.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::process::{
    CHILDREN_SYSTEM_TIME, CHILDREN_USER_TIME, GROUP, PARENT, SYSTEM_TIME, USER_TIME, processes,
    stat_fields, ticks,
};

/// At most this part of a core is used by others while a figure is measured.
pub(crate) const QUIET: f64 = 0.10;
/// The process that has all threads of the kernel as its children. They work for the measured
/// programs too, so their time does not count.
const KERNEL: &str = "2";
/// The number of `steal` in the first line of `/proc/stat`, counted from the first number.
const STEAL: usize = 7;

/// The processor time so far of all processes that are outside of the process groups `ours`, ended
/// children included, and the time that the host of a virtual machine took away.
pub(crate) fn time_of_others(ours: &[u32]) -> Result<Duration> {
    let ours: Vec<String> = ours.iter().map(u32::to_string).collect();
    let mut total = stolen(&fs::read_to_string("/proc/stat")?)?;
    for process in processes() {
        // It may have ended since the directory was read; then its parent has its time.
        let Ok(fields) = stat_fields(&process) else { continue };
        total += time(&process, &fields, &ours)?;
    }
    Ok(total)
}

fn time(process: &str, fields: &[String], ours: &[String]) -> Result<Duration> {
    let field = |number: usize| fields.get(number).context("/proc/PID/stat");
    let is_kernel = process == KERNEL || field(PARENT)? == KERNEL;
    if is_kernel || ours.contains(field(GROUP)?) {
        return Ok(Duration::ZERO);
    }
    let mut used = 0;
    for number in [USER_TIME, SYSTEM_TIME, CHILDREN_USER_TIME, CHILDREN_SYSTEM_TIME] {
        used += field(number)?.parse::<u64>()?;
    }
    Ok(ticks(used))
}

/// The time that the host took away, in the text of `/proc/stat`.
fn stolen(stat: &str) -> Result<Duration> {
    let line =
        stat.lines().next().and_then(|line| line.strip_prefix("cpu ")).context("/proc/stat")?;
    // Old kernels do not count it.
    let steal = line.split_whitespace().nth(STEAL).unwrap_or("0");
    Ok(ticks(steal.parse()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(parent: u32, group: u32) -> Vec<String> {
        let mut fields = vec!["0".to_owned(); 20];
        fields[PARENT] = parent.to_string();
        fields[GROUP] = group.to_string();
        for (number, used) in [
            (USER_TIME, 100),
            (SYSTEM_TIME, 20),
            (CHILDREN_USER_TIME, 3),
            (CHILDREN_SYSTEM_TIME, 4),
        ] {
            fields[number] = used.to_string();
        }
        fields
    }

    #[test]
    fn own_groups_and_the_kernel_are_no_others() {
        let ours = ["70".to_owned()];
        for (process, fields, used) in [
            ("9", fields(1, 9), 127),
            ("71", fields(1, 70), 0),
            ("2", fields(0, 0), 0),
            ("30", fields(2, 0), 0),
        ] {
            assert_eq!(time(process, &fields, &ours).unwrap(), ticks(used), "{process}");
        }
        assert!(time("9", &fields(1, 9)[..5], &ours).is_err());
    }

    #[test]
    fn time_that_the_host_takes_counts() {
        let stat = "cpu  10 20 30 40 50 60 70 80 90 100\ncpu0 1 2 3 4 5 6 7 8 9 10\n";
        assert_eq!(stolen(stat).unwrap(), ticks(80));
        assert_eq!(stolen("cpu  10 20 30 40\n").unwrap(), Duration::ZERO);
        assert!(stolen("intr 5\n").is_err());
    }

    #[test]
    fn the_time_of_this_machine_is_readable_and_grows() {
        let all = time_of_others(&[]).unwrap();
        let end = std::time::Instant::now() + Duration::from_millis(200);
        while std::time::Instant::now() < end {}
        assert!(time_of_others(&[]).unwrap() >= all + Duration::from_millis(100));
    }
}
