//! The control groups of this process, in versions 1 and 2 of the interface.

use std::path::{Path, PathBuf};

/// Returns the directories of a controller for the group of this process and the groups above it,
/// as far as they are visible. `root` is the directory that contains `/proc` and `/sys`.
pub fn directories(root: &Path, controller: &str) -> Vec<PathBuf> {
    process_directories(root, "self", controller)
}

/// Returns the directories of a controller for the group of a process, which is an id or `self`.
fn process_directories(root: &Path, process: &str, controller: &str) -> Vec<PathBuf> {
    let groups = root.join("proc").join(process).join("cgroup");
    let groups = std::fs::read_to_string(groups).unwrap_or_default();
    let mut found = Vec::new();
    for line in groups.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { continue };
        let Some(mount) = controller_mount(root, controllers, controller) else { continue };
        let group = mount.join(path.trim_start_matches('/'));
        let groups = group.ancestors().take_while(|a| a.starts_with(&mount));
        found.extend(groups.map(Path::to_path_buf));
    }
    found
}

/// Returns the mount point of a hierarchy; `None` if it does not have the controller. The unified
/// hierarchy has an empty list of controllers and contains all of them.
fn controller_mount(root: &Path, controllers: &str, controller: &str) -> Option<PathBuf> {
    let groups = root.join("sys/fs/cgroup");
    if controllers.is_empty() {
        return Some(groups);
    }
    let has_controller = controllers.split(',').any(|listed| listed == controller);
    if has_controller { Some(groups.join(controller)) } else { None }
}

/// CPU quota of a control group.
#[derive(Clone, Debug, PartialEq)]
pub struct CpuQuota {
    /// File that sets the quota.
    pub file: PathBuf,
    pub quota_us: f64,
    /// Interval after which the quota is refilled.
    pub period_us: f64,
}

impl CpuQuota {
    /// Returns the quota as a number of CPUs.
    pub fn cpus(&self) -> f64 {
        self.quota_us / self.period_us
    }
}

/// Returns the strictest CPU quota that applies to this process.
pub fn quota(root: &Path) -> Option<CpuQuota> {
    process_quota(root, "self")
}

/// Returns the strictest CPU quota that applies to a process, which is an id or `self`.
pub fn process_quota(root: &Path, process: &str) -> Option<CpuQuota> {
    let groups = process_directories(root, process, "cpu");
    let quotas = groups.iter().filter_map(|group| read_quota(group));
    quotas.min_by(|a, b| a.cpus().total_cmp(&b.cpus()))
}

/// Whether the control groups of a process, which is an id or `self`, can be read.
pub fn is_known(root: &Path, process: &str) -> bool {
    std::fs::read_to_string(root.join("proc").join(process).join("cgroup")).is_ok()
}

/// Returns all CPU quotas that apply to this process.
pub fn quotas(root: &Path) -> Vec<CpuQuota> {
    directories(root, "cpu").iter().filter_map(|group| read_quota(group)).collect()
}

/// Returns the quota of a control group; `None` if it has none.
fn read_quota(group: &Path) -> Option<CpuQuota> {
    let file = group.join("cpu.max");
    let (quota_us, period_us, file) = match std::fs::read_to_string(&file) {
        Ok(text) => {
            let mut words = text.split_whitespace().map(str::parse::<f64>);
            (words.next()?.ok()?, words.next()?.ok()?, file)
        }
        Err(_) => {
            let file = group.join("cpu.cfs_quota_us");
            (read_number(&file)?, read_number(&group.join("cpu.cfs_period_us"))?, file)
        }
    };
    (quota_us > 0.0 && period_us > 0.0).then_some(CpuQuota { file, quota_us, period_us })
}

/// Returns the memory that the control groups of this process may still use; `None` if they have no
/// limit.
pub fn available_memory(root: &Path) -> Option<u64> {
    directories(root, "memory").iter().filter_map(|group| read_available_memory(group)).min()
}

fn read_available_memory(group: &Path) -> Option<u64> {
    let number = |file: &str| read_number(&group.join(file)).map(|bytes| bytes as u64);
    let limit = number("memory.max").or_else(|| number("memory.limit_in_bytes"))?;
    let used = number("memory.current").or_else(|| number("memory.usage_in_bytes"))?;
    // The kernel drops this memory before it ends a process. In version 1, only the totals include
    // groups below.
    let stat = std::fs::read_to_string(group.join("memory.stat")).unwrap_or_default();
    let field = |name: &str| -> Option<u64> {
        let mut lines = stat.lines().filter_map(|line| line.split_once(' '));
        lines.find(|(key, _)| *key == name)?.1.parse().ok()
    };
    let reclaimable: u64 = ["inactive_file", "active_file", "slab_reclaimable"]
        .into_iter()
        .filter_map(|name| field(&format!("total_{name}")).or_else(|| field(name)))
        .sum();
    Some(limit.saturating_sub(used.saturating_sub(reclaimable)))
}

fn read_number(path: &Path) -> Option<f64> {
    std::fs::read_to_string(path).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(root: &Path, file: &str, text: &str) {
        let path = root.join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    #[test]
    fn strictest_quota_applies() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!((quota(root.path()), is_known(root.path(), "self")), (None, false));
        put(root.path(), "proc/self/cgroup", "0::/a/b\n");
        assert!(is_known(root.path(), "self"));
        put(root.path(), "sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
        assert_eq!(quota(root.path()), None);
        put(root.path(), "sys/fs/cgroup/a/cpu.max", "20000 100000\n");
        assert_eq!(quota(root.path()).map(|q| q.cpus()), Some(0.2));
        put(root.path(), "proc/self/cgroup", "2:cpu,cpuacct:/c\n1:memory:/d\n0::/\n");
        put(root.path(), "sys/fs/cgroup/cpu/c/cpu.cfs_quota_us", "-1\n");
        put(root.path(), "sys/fs/cgroup/cpu/c/cpu.cfs_period_us", "100000\n");
        assert_eq!(quota(root.path()), None, "-1 means no quota");
        put(root.path(), "sys/fs/cgroup/cpu/c/cpu.cfs_quota_us", "150000\n");
        assert_eq!(quota(root.path()).map(|q| q.cpus()), Some(1.5));
    }

    #[test]
    fn strictest_memory_limit_applies() {
        const MIB: u64 = 1 << 20;
        let root = tempfile::tempdir().unwrap();
        let available_mib = || available_memory(root.path()).map(|bytes| bytes / MIB);
        let put_mib = |file: &str, mib: u64| {
            put(root.path(), &format!("sys/fs/cgroup/{file}"), &format!("{}\n", mib * MIB))
        };
        assert_eq!(available_mib(), None);
        put(root.path(), "proc/self/cgroup", "0::/a/b\n");
        put(root.path(), "sys/fs/cgroup/a/b/memory.max", "max\n");
        put_mib("a/b/memory.current", 10);
        assert_eq!(available_mib(), None);
        put_mib("a/memory.max", 100);
        put_mib("a/memory.current", 40);
        assert_eq!(available_mib(), Some(60));
        put(
            root.path(),
            "sys/fs/cgroup/a/memory.stat",
            &format!("anon 1\ninactive_file {}\nactive_file {}\n", 20 * MIB, 10 * MIB),
        );
        assert_eq!(available_mib(), Some(90), "cached files can be dropped");
        put_mib("a/b/memory.max", 5);
        assert_eq!(available_mib(), Some(0), "more is used than the limit allows");
        put(root.path(), "proc/self/cgroup", "2:memory:/c\n1:cpu:/d\n0::/\n");
        put_mib("memory/c/memory.limit_in_bytes", 80);
        put_mib("memory/c/memory.usage_in_bytes", 50);
        let stat = format!("inactive_file 0\ntotal_inactive_file {}\n", 20 * MIB);
        put(root.path(), "sys/fs/cgroup/memory/c/memory.stat", &stat);
        assert_eq!(available_mib(), Some(50));
    }
}
