//! What the system allows the process, against what the settings ask for: open files and memory.
//!
//! Shape:   limits of the process and of its control groups -> raised where that is possible, a warning where not
//! Failure: what cannot be read is no limit

use crate::daemon::raise;
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

/// Says where the control group allows less memory than there is to be, or than there may come to be.
pub(crate) fn check_memory(memory: Bytes, most: Bytes) {
    let read = |path: &Path| std::fs::read_to_string(path).ok();
    if let Some(said) = memory_limit(&read).and_then(|limit| beyond(limit, memory, most)) {
        tracing::warn!("{said}");
    }
}

/// What is to be said of a limit of memory below that.
fn beyond(limit: Bytes, memory: Bytes, most: Bytes) -> Option<String> {
    if limit < memory {
        return Some(format!(
            "the control group allows {limit} of memory, -m is {memory}: the process will be killed before it is full"
        ));
    }
    (limit < most).then(|| {
        format!("the control group allows {limit} of memory, memory_max is {most}: raised beyond that the process will be killed before it is full")
    })
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

    #[test]
    fn memory_beyond_the_limit_is_named_as_it_is_and_as_it_may_be() {
        let said = |limit| beyond(Bytes::mib(limit), Bytes::mib(64), Bytes::mib(128)).unwrap_or_default();
        assert!(said(63).contains("-m is 64MiB"), "{}", said(63));
        assert!(said(64).contains("memory_max is 128MiB") && !said(127).is_empty(), "{}", said(64));
        assert_eq!(said(128), "");
        assert_eq!(beyond(Bytes::mib(64), Bytes::mib(64), Bytes::mib(64)), None);
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
