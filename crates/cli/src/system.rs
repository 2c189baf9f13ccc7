//! What the system allows the process, against what the settings ask for: open files and memory.
//!
//! Shape:   limits of the process and of its control groups -> raised where that is possible, a warning where not
//! Failure: what cannot be read is no limit

use crate::daemon::raise;
use media::TierMedium;
use rustix::process::Resource;
use server::Config;
use std::path::{Path, PathBuf};
use units::Bytes;

/// Files beside connections: listeners, polls, the administration, the log.
const OTHER_FILES: u64 = 64;
/// Files of one worker thread.
const FILES_PER_WORKER: u64 = 4;

/// Raises the limit of open files where it is too low, and warns where that does not go.
pub(crate) fn raise_files(config: &Config) {
    let wanted = config.max_connections as u64 + config.threads as u64 * FILES_PER_WORKER + OTHER_FILES;
    let files = raise("open files", Resource::Nofile, wanted);
    if files < wanted {
        tracing::warn!(
            "{} connections need {wanted} open files, {files} are allowed: ulimit -n {wanted}, or LimitNOFILE={wanted}",
            config.max_connections
        );
    }
}

/// What a process takes beside `-m` and tiers in memory: program, stacks, receive buffers, the journal (measured: 10.5 to 18.4 MiB
/// with `-m 64` and 100 connections, docs/tiers.md).
const BESIDE: Bytes = Bytes::mib(18);

/// Says where the control group allows less memory than there is to be, or than there may come to be.
pub(crate) fn check_memory(config: &Config) {
    let read = |path: &Path| std::fs::read_to_string(path).ok();
    if let Some(said) = memory_limit(&read).and_then(|limit| beyond(limit, config)) {
        tracing::warn!("{said}");
    }
}

/// What is to be said of a limit of memory below what a server takes.
fn beyond(limit: Bytes, config: &Config) -> Option<String> {
    let tiers: Vec<_> = config.tiers.iter().filter(|tier| is_in_memory(&tier.spec.medium)).collect();
    let beside = tiers.iter().fold(BESIDE, |sum, tier| sum + tier.spec.size);
    let tiers: String = tiers.iter().map(|t| format!(", tier '{}' of {}", t.name, t.spec.size)).collect();
    let takes = |what: &str, memory: Bytes, when: &str| {
        let all = memory + beside;
        (limit < all).then(|| {
            format!(
                "the control group allows {limit} of memory, and {what} of {memory}{tiers} and some {BESIDE} beside them are {all}: \
                 {when}the process may be killed before it is full"
            )
        })
    };
    takes("-m", config.memory, "").or_else(|| takes("memory_max", config.most_memory(), "raised so far "))
}

/// Whether a tier's values are memory of the process.
fn is_in_memory(medium: &TierMedium) -> bool {
    match medium {
        TierMedium::Dram | TierMedium::Emulated(_) | TierMedium::Numa(_) => true,
        TierMedium::File(_) | TierMedium::Synced(_) | TierMedium::Dax(_) => false,
    }
}

/// The least limit of memory of the process's control groups and those above them.
fn memory_limit(read: &dyn Fn(&Path) -> Option<String>) -> Option<Bytes> {
    let groups = read(Path::new("/proc/self/cgroup"))?;
    let limits = groups.lines().filter_map(|line| {
        let mut fields = line.splitn(3, ':');
        let (_, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
        let (root, file) = match controllers {
            "" => ("/sys/fs/cgroup", "memory.max"),
            _ if controllers.split(',').any(|c| c == "memory") => {
                ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")
            }
            _ => return None,
        };
        let group = PathBuf::from(format!("{root}{path}"));
        // Within a container the path may be the host's; what is mounted is then the group itself.
        let within = group.ancestors().filter(|folder| folder.starts_with(root));
        within.filter_map(|folder| read(&folder.join(file))?.trim().parse().ok()).min()
    });
    limits.min().map(Bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use server::TierConfig;

    #[test]
    fn memory_beyond_the_limit_is_named_as_it_is_and_as_it_may_be() {
        let config = |tiers: &[&str]| Config {
            memory: Bytes::mib(64),
            memory_max: Some(Bytes::mib(128)),
            tiers: tiers.iter().map(|tier| TierConfig::parse(tier).unwrap()).collect(),
            ..Config::default()
        };
        let said = |limit, tiers: &[&str]| beyond(Bytes::mib(limit), &config(tiers)).unwrap_or_default();
        // What a process takes beside is memory, too.
        assert!(
            said(64, &[]).contains("-m of 64MiB and some 18MiB beside them are 82MiB"),
            "{}",
            said(64, &[])
        );
        assert!(said(81, &[]).contains("-m of"), "{}", said(81, &[]));
        assert!(
            said(82, &[]).contains("memory_max of 128MiB") && !said(145, &[]).is_empty(),
            "{}",
            said(82, &[])
        );
        assert_eq!(said(146, &[]), "");
        for tier in ["pm=emulated:6dimm:32MiB", "pm=numa:1:32MiB", "pm=dram:32MiB"] {
            assert!(said(113, &[tier]).contains("tier 'pm' of 32MiB"), "{}", said(113, &[tier]));
            assert!(!said(114, &[tier]).contains("-m of") && said(178, &[tier]).is_empty());
        }
        assert_eq!(said(146, &["ssd=file:/a:32MiB"]), "", "a file is no memory of the process");
        let fixed = Config { memory_max: None, ..config(&[]) };
        assert_eq!(beyond(Bytes::mib(82), &fixed), None);
    }

    fn check(files: &[(&str, &str)], wanted: Option<u64>) {
        let read = |path: &Path| {
            files.iter().find(|(name, _)| Path::new(name) == path).map(|(_, text)| (*text).to_owned())
        };
        assert_eq!(memory_limit(&read), wanted.map(Bytes), "{files:?}");
    }

    #[test]
    fn the_least_limit_counts() {
        let group = ("/proc/self/cgroup", "0::/a/b\n");
        check(&[group], None);
        check(&[group, ("/sys/fs/cgroup/a/b/memory.max", "max\n")], None);
        check(
            &[group, ("/sys/fs/cgroup/a/b/memory.max", "max\n"), ("/sys/fs/cgroup/a/memory.max", "7\n")],
            Some(7),
        );
        check(
            &[group, ("/sys/fs/cgroup/a/b/memory.max", "5\n"), ("/sys/fs/cgroup/a/memory.max", "7\n")],
            Some(5),
        );
        check(&[group, ("/sys/fs/cgroup/memory.max", "9")], Some(9));
        let old = ("/proc/self/cgroup", "3:cpu:/x\n2:memory:/a\n");
        check(&[old, ("/sys/fs/cgroup/memory/a/memory.limit_in_bytes", "11\n")], Some(11));
        check(&[], None);
    }
}
