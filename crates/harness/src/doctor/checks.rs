//! Each ability: where the system describes it, and what that means.
//!
//! Source: Linux, Documentation: admin-guide/sysctl/kernel.rst (`io_uring_disabled`, `perf_event_paranoid`), sysctl/vm.rst
//!         (`unprivileged_userfaultfd`), filesystems/dax.rst, filesystems/resctrl.rst, admin-guide/mm/transhuge.rst,
//!         admin-guide/cgroup-v2.rst

use super::{Finding, Offer, Tried};
use std::path::{Path, PathBuf};

/// The system's description of itself.
pub(super) struct System {
    root: PathBuf,
}

impl System {
    pub(super) fn new(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }

    /// The text of a file; empty if it cannot be read.
    fn text(&self, path: &str) -> String {
        std::fs::read_to_string(self.root.join(path)).unwrap_or_default().trim().to_owned()
    }

    /// A number that a file holds.
    fn number(&self, path: &str) -> Option<i64> {
        self.text(path).parse().ok()
    }

    fn is_there(&self, path: &str) -> bool {
        self.root.join(path).exists()
    }

    /// Names in a folder, sorted.
    fn names(&self, path: &str) -> Vec<String> {
        let entries = std::fs::read_dir(self.root.join(path)).into_iter().flatten().flatten();
        let mut names: Vec<String> = entries.map(|e| e.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    /// Mounts as device, place, kind, options.
    fn mounts(&self) -> Vec<[String; 4]> {
        let text = self.text("proc/mounts");
        let mount = |line: &str| {
            let mut words = line.split(' ').map(str::to_owned);
            Some([words.next()?, words.next()?, words.next()?, words.next()?])
        };
        text.lines().filter_map(mount).collect()
    }

    /// Whether the processor has this ability.
    fn has_flag(&self, flag: &str) -> bool {
        let text = self.text("proc/cpuinfo");
        let line = text.lines().find_map(|line| line.strip_prefix("flags")?.split_once(':'));
        line.is_some_and(|(_, has)| has.split_ascii_whitespace().any(|one| one == flag))
    }

    fn knows_file_system(&self, name: &str) -> bool {
        self.text("proc/filesystems").lines().any(|line| line.split_whitespace().last() == Some(name))
    }
}

pub(super) fn all(system: &System, tried: &Tried) -> Vec<Finding> {
    vec![
        direct_io(tried),
        io_uring(system, tried),
        dax(system),
        numa(system),
        huge_pages(system),
        userfaultfd(system),
        resctrl(system),
        cgroup_v2(system),
        cgroup_v1(system),
        pmu(system),
    ]
}

fn finding(
    (name, purpose): (&'static str, &'static str),
    (offer, seen): (Offer, impl Into<String>),
    instead: &'static str,
    enable: Option<String>,
) -> Finding {
    let instead = if offer == Offer::Yes { "" } else { instead };
    let enable = if offer == Offer::Yes { None } else { enable };
    Finding { name, purpose, offer, seen: seen.into(), instead, enable }
}

fn direct_io(tried: &Tried) -> Finding {
    let folder = tried.folder.display();
    let seen = match &tried.direct_io {
        Ok(()) => (Offer::Yes, format!("works in {folder}")),
        Err(why) => (Offer::No, why.clone()),
    };
    let enable = Some("cotenant doctor --at FOLDER, with a folder on a disk".to_owned());
    finding(("direct I/O", "file tiers"), seen, "no file tier there; emulated:6dimm:SIZE for trials", enable)
}

fn io_uring(system: &System, tried: &Tried) -> Finding {
    let about = ("io_uring", "sockets, reads of file tiers");
    let instead = match (&tried.sockets, tried.io_uring) {
        (Ok(()), _) => "threads read files",
        (Err(_), Some(true)) => "epoll waits for sockets",
        (Err(_), _) => "epoll waits for sockets, threads read files",
    };
    let reads = match tried.io_uring {
        Some(true) => "a read went through",
        Some(false) => "reads of files are refused",
        None => "reads were not tried: there is no file tier",
    };
    let seen = match &tried.sockets {
        Ok(()) => format!("waits for sockets; {reads}"),
        Err(why) => format!("does not wait for sockets ({why}); {reads}"),
    };
    if tried.sockets.is_ok() && tried.io_uring != Some(false) {
        return finding(about, (Offer::Yes, seen), "", None);
    }
    let disabled = system.number("proc/sys/kernel/io_uring_disabled").unwrap_or(0);
    let (seen, enable) = if matches!(disabled, 1 | 2) {
        let seen = format!("{seen}; kernel.io_uring_disabled is {disabled}");
        (seen, "sysctl -w kernel.io_uring_disabled=0")
    } else {
        // A container's profile, or a system that is too old.
        (seen, "docker run --security-opt seccomp=PROFILE, with a profile that allows io_uring_setup")
    };
    finding(about, (Offer::Off, seen), instead, Some(enable.to_owned()))
}

fn dax(system: &System) -> Finding {
    let mounted: Vec<String> = system
        .mounts()
        .into_iter()
        .filter(|[.., options]| options.split(',').any(|o| o == "dax" || o == "dax=always"))
        .map(|[_, place, ..]| place)
        .collect();
    let devices = system.names("sys/bus/dax/devices");
    let pmem: Vec<String> = system.names("sys/block").into_iter().filter(|n| n.starts_with("pmem")).collect();
    let regions: Vec<String> =
        system.names("sys/bus/nd/devices").into_iter().filter(|name| name.starts_with("region")).collect();
    let (seen, enable) = if let Some(place) = mounted.first() {
        ((Offer::Yes, format!("file system {place}")), None)
    } else if let Some(device) = devices.first() {
        ((Offer::Yes, format!("device /dev/{device}")), None)
    } else if let Some(disk) = pmem.first() {
        let enable = format!("mount -o dax /dev/{disk} /mnt/{disk}");
        ((Offer::Off, format!("/dev/{disk} is not mounted with -o dax")), Some(enable))
    } else if let Some(region) = regions.first() {
        let enable = format!("ndctl create-namespace --mode=fsdax --region={region}");
        ((Offer::Off, format!("{region} has no namespace")), Some(enable))
    } else {
        ((Offer::No, "no persistent memory".to_owned()), None)
    };
    finding(
        ("DAX", "dax tiers"),
        seen,
        "emulated:6dimm:SIZE has its timing, file:PATH:SIZE its durability",
        enable,
    )
}

fn numa(system: &System) -> Finding {
    let about = ("NUMA", "numa tiers (CXL memory)");
    let instead = "emulated:6dimm:SIZE for trials";
    let mut nodes: Vec<u32> = system
        .names("sys/devices/system/node")
        .iter()
        .filter_map(|n| n.strip_prefix("node")?.parse().ok())
        .collect();
    nodes.sort_unstable();
    let of = |node: u32, file: &str| system.text(&format!("sys/devices/system/node/node{node}/{file}"));
    // A node of processors alone, or whose memory is all offline, gives none.
    let (with, without): (Vec<u32>, Vec<u32>) =
        nodes.into_iter().partition(|node| has_memory(&of(*node, "meminfo")));
    let listed = |nodes: &[u32]| nodes.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
    let mut seen =
        format!("nodes with memory: {}", if with.is_empty() { "0".to_owned() } else { listed(&with) });
    let slow: Vec<u32> = with.iter().copied().filter(|node| of(*node, "cpulist").is_empty()).collect();
    for (what, nodes) in [("without processors", &slow), ("without memory", &without)] {
        if !nodes.is_empty() {
            seen.push_str(&format!("; {what}: {}", listed(nodes)));
        }
    }
    if !slow.is_empty() || 1 < with.len() {
        return finding(about, (Offer::Yes, seen), instead, None);
    }
    let device = system.names("sys/bus/dax/devices").into_iter().next();
    let enable = device.map(|device| format!("daxctl reconfigure-device --mode=system-ram {device}"));
    let offer = if enable.is_some() { Offer::Off } else { Offer::No };
    finding(about, (offer, seen), instead, enable)
}

/// Whether a node has memory, by its `meminfo`.
fn has_memory(described: &str) -> bool {
    let total = described.lines().find_map(|line| line.split_once("MemTotal:"));
    total.and_then(|(_, rest)| rest.split_ascii_whitespace().next()).is_some_and(|kib| kib != "0")
}

fn huge_pages(system: &System) -> Finding {
    let text = system.text("sys/kernel/mm/transparent_hugepage/enabled");
    let chosen = text.split_whitespace().find_map(|word| word.strip_prefix('[')?.strip_suffix(']'));
    let enable = Some("echo madvise > /sys/kernel/mm/transparent_hugepage/enabled".to_owned());
    let seen = match chosen {
        Some(mode @ ("always" | "madvise")) => (Offer::Yes, format!("transparent huge pages are {mode}")),
        Some(mode) => (Offer::Off, format!("transparent huge pages are {mode}")),
        None => {
            let seen = (Offer::No, "the kernel has none");
            return finding(("huge pages", "index and log"), seen, "pages of 4 KiB", None);
        }
    };
    finding(("huge pages", "index and log"), seen, "pages of 4 KiB: more misses of the address cache", enable)
}

/// What is used instead of what nothing of ours uses so far: there is no cure to tell, and nothing to change on the machine.
const NOT_YET: &str = "nothing: what would use it is not there yet";

fn userfaultfd(system: &System) -> Finding {
    let seen = match system.number("proc/sys/vm/unprivileged_userfaultfd") {
        Some(1) => (Offer::Yes, "for everybody"),
        Some(_) if system.is_there("dev/userfaultfd") => (Offer::Yes, "for who may open /dev/userfaultfd"),
        Some(_) => (Offer::Off, "for the superuser only"),
        None => (Offer::No, "the kernel has none"),
    };
    finding(("userfaultfd", "a pager, which is not there yet"), seen, NOT_YET, None)
}

fn resctrl(system: &System) -> Finding {
    let about = ("resctrl", "bandwidth of host tenants (MBA), which are not there yet");
    let mounted = system.mounts().into_iter().find(|[_, _, kind, _]| kind == "resctrl");
    let seen = if let Some([_, place, ..]) = mounted {
        // The kernel shows so what the processor can do with memory bandwidth; caches alone are no help here.
        if system.is_there(&format!("{}/info/MB", place.trim_start_matches('/'))) {
            (Offer::Yes, format!("mounted at {place}"))
        } else {
            (Offer::No, format!("mounted at {place}, without memory bandwidth (info/MB)"))
        }
    } else if system.knows_file_system("resctrl") && system.has_flag("mba") {
        (Offer::Off, "not mounted".to_owned())
    } else {
        (Offer::No, "neither processor nor kernel have it, or one lacks".to_owned())
    };
    finding(about, seen, NOT_YET, None)
}

fn cgroup_v2(system: &System) -> Finding {
    let about = ("cgroup v2", "memory and CPU of host tenants, which are not there yet");
    let mounted = system.mounts().into_iter().find(|[_, _, kind, _]| kind == "cgroup2");
    let Some([_, place, ..]) = mounted else {
        let offer = if system.knows_file_system("cgroup2") { Offer::Off } else { Offer::No };
        return finding(about, (offer, "not mounted"), NOT_YET, None);
    };
    let controllers = system.text(&format!("{}/cgroup.controllers", place.trim_start_matches('/')));
    let lacks: Vec<&str> = ["memory", "cpu", "io"]
        .into_iter()
        .filter(|c| !controllers.split(' ').any(|has| has == *c))
        .collect();
    if lacks.is_empty() {
        return finding(about, (Offer::Yes, format!("{place}: {controllers}")), "", None);
    }
    let seen = format!("{place} lacks {} (v1 holds what v2 lacks)", lacks.join(", "));
    finding(about, (Offer::Off, seen), NOT_YET, None)
}

fn cgroup_v1(system: &System) -> Finding {
    let about = ("cgroup v1", "the same where v2 is not there");
    let held: Vec<String> = system
        .mounts()
        .into_iter()
        .filter(|[_, _, kind, _]| kind == "cgroup")
        .filter_map(|[_, place, ..]| Some(place.rsplit('/').next()?.to_owned()))
        .collect();
    if held.iter().any(|name| name.contains("memory")) {
        return finding(about, (Offer::Yes, held.join(", ")), "", None);
    }
    let seen = if held.is_empty() {
        "not mounted".to_owned()
    } else {
        format!("without memory: {}", held.join(", "))
    };
    finding(about, (Offer::No, seen), NOT_YET, None)
}

/// The right to count events of others, as a bit of `CapEff` (capabilities(7)), and that of all administration.
const PERFMON: u32 = 38;
const SYS_ADMIN: u32 = 21;

fn pmu(system: &System) -> Finding {
    let about = ("PMU", "what host tenants do to memory, which are not there yet");
    let devices = "sys/bus/event_source/devices";
    // Those of processors: one where all are alike; else, as on ARM, each says which processors it is of.
    let is_of_processors =
        |name: &String| name == "cpu" || system.is_there(&format!("{devices}/{name}/cpus"));
    let counters: Vec<String> = system.names(devices).into_iter().filter(is_of_processors).collect();
    if counters.is_empty() {
        return finding(about, (Offer::No, "the machine shows no counters (a virtual one?)"), NOT_YET, None);
    }
    let paranoid = system.number("proc/sys/kernel/perf_event_paranoid").unwrap_or(0);
    let status = system.text("proc/self/status");
    let held =
        status.lines().find_map(|line| u64::from_str_radix(line.strip_prefix("CapEff:")?.trim(), 16).ok());
    let may = held.is_some_and(|held| held & (1 << PERFMON | 1 << SYS_ADMIN) != 0);
    // Events of a processor or of a control group, and not of one process, are for who may otherwise (perf_event_open(2)).
    let offer = if paranoid <= 0 || may { Offer::Yes } else { Offer::Off };
    let right = if may { ", which this process need not heed" } else { "" };
    let seen = format!("{}; kernel.perf_event_paranoid is {paranoid}{right}", counters.join(", "));
    finding(about, (offer, seen), NOT_YET, None)
}
