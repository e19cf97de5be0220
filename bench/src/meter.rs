//! The meter: CPU time of this thread, wall time, peak memory.

use std::time::{Duration, Instant};

use anyhow::Context as _;

pub(crate) struct Meter {
    cpu: Duration,
    wall: Duration,
}

impl Meter {
    /// Measures what the closure costs.
    pub(crate) fn over(work: impl FnOnce()) -> Self {
        let (cpu, wall) = (cpu_time(), Instant::now());
        work();
        Self { cpu: cpu_time().saturating_sub(cpu), wall: wall.elapsed() }
    }

    pub(crate) fn cpu_ms(&self) -> f64 {
        self.cpu.as_secs_f64() * 1e3
    }

    pub(crate) fn wall_ms(&self) -> f64 {
        self.wall.as_secs_f64() * 1e3
    }
}

/// The most memory the process has had.
pub(crate) fn peak_rss_kb() -> anyhow::Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status").context("read /proc/self/status")?;
    let line =
        status.lines().find(|line| line.starts_with("VmHWM:")).context("VmHWM in /proc/self/status")?;
    let number = line.split_whitespace().nth(1).context("a number after VmHWM")?;
    number.parse().context("a number after VmHWM")
}

/// The CPU time this thread has used, to the nanosecond.
fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}
