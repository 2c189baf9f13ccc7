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
    let disabled = system.number("proc/sys/kernel/io_uring_disabled").unwrap_or(0);
    let (seen, enable) = match (tried.io_uring, disabled) {
        (Some(true), _) => ((Offer::Yes, "a read went through".to_owned()), None),
        (_, 1 | 2) => {
            let seen = format!("kernel.io_uring_disabled is {disabled}");
            ((Offer::Off, seen), Some("sysctl -w kernel.io_uring_disabled=0"))
        }
        (None, _) => ((Offer::No, "not tried: there is no file tier to read from".to_owned()), None),
        (Some(false), _) => {
            let enable =
                "docker run --security-opt seccomp=PROFILE, with a profile that allows io_uring_setup";
            ((Offer::Off, "the system refuses it (a container's profile?)".to_owned()), Some(enable))
        }
    };
    let instead = "threads read files, epoll waits for sockets";
    finding(("io_uring", "reads of file tiers, sockets"), seen, instead, enable.map(str::to_owned))
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
    let nodes: Vec<String> = system
        .names("sys/devices/system/node")
        .into_iter()
        .filter(|name| name.strip_prefix("node").is_some_and(|n| n.parse::<u32>().is_ok()))
        .collect();
    let slow: Vec<&str> = nodes
        .iter()
        .filter(|node| system.text(&format!("sys/devices/system/node/{node}/cpulist")).is_empty())
        .map(String::as_str)
        .collect();
    let device = system.names("sys/bus/dax/devices").into_iter().next();
    let (seen, enable) = if let Some(node) = slow.first() {
        ((Offer::Yes, format!("{node} has memory and no processors")), None)
    } else if 1 < nodes.len() {
        ((Offer::Yes, format!("{} nodes, all with processors", nodes.len())), None)
    } else {
        let enable = device.map(|device| format!("daxctl reconfigure-device --mode=system-ram {device}"));
        let offer = if enable.is_some() { Offer::Off } else { Offer::No };
        ((offer, "one node".to_owned()), enable)
    };
    finding(("NUMA", "numa tiers (CXL memory)"), seen, "emulated:6dimm:SIZE for trials", enable)
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

fn userfaultfd(system: &System) -> Finding {
    let unprivileged = system.number("proc/sys/vm/unprivileged_userfaultfd");
    let enable = Some("sysctl -w vm.unprivileged_userfaultfd=1".to_owned());
    let seen = match unprivileged {
        Some(1) => (Offer::Yes, "for everybody"),
        Some(_) if system.is_there("dev/userfaultfd") => (Offer::Yes, "for who may open /dev/userfaultfd"),
        Some(_) => (Offer::Off, "for the superuser only"),
        None => {
            let seen = (Offer::No, "the kernel has none");
            return finding(("userfaultfd", "the pager"), seen, "no pager", None);
        }
    };
    finding(("userfaultfd", "the pager"), seen, "the pager as the superuser", enable)
}

fn resctrl(system: &System) -> Finding {
    let about = ("resctrl", "bandwidth of host tenants (MBA)");
    let instead = "CPU quotas slow host tenants; cache tenants have their brakes";
    let mounted = system.mounts().into_iter().find(|[_, _, kind, _]| kind == "resctrl");
    if let Some([_, place, ..]) = mounted {
        // The kernel shows so what the processor can do with memory bandwidth; caches alone are no help here.
        let seen = if system.is_there(&format!("{}/info/MB", place.trim_start_matches('/'))) {
            (Offer::Yes, format!("mounted at {place}"))
        } else {
            (Offer::No, format!("mounted at {place}, without memory bandwidth (info/MB)"))
        };
        return finding(about, seen, instead, None);
    }
    if system.knows_file_system("resctrl") && system.has_flag("mba") {
        let enable = Some("mount -t resctrl resctrl /sys/fs/resctrl".to_owned());
        return finding(about, (Offer::Off, "not mounted"), instead, enable);
    }
    finding(about, (Offer::No, "neither processor nor kernel have it, or one lacks"), instead, None)
}

fn cgroup_v2(system: &System) -> Finding {
    let about = ("cgroup v2", "memory and CPU of host tenants");
    let instead = "cgroup v1, without pressure and without io limits of swap";
    let mounted = system.mounts().into_iter().find(|[_, _, kind, _]| kind == "cgroup2");
    let boot = "add systemd.unified_cgroup_hierarchy=1 to the kernel's command line, then: reboot".to_owned();
    let Some([_, place, ..]) = mounted else {
        let known = system.knows_file_system("cgroup2");
        let offer = if known { Offer::Off } else { Offer::No };
        return finding(about, (offer, "not mounted"), instead, known.then_some(boot));
    };
    let controllers = system.text(&format!("{}/cgroup.controllers", place.trim_start_matches('/')));
    let lacks: Vec<&str> = ["memory", "cpu", "io"]
        .into_iter()
        .filter(|c| !controllers.split(' ').any(|has| has == *c))
        .collect();
    if lacks.is_empty() {
        return finding(about, (Offer::Yes, format!("{place}: {controllers}")), instead, None);
    }
    let seen = format!("{place} lacks {} (v1 holds what v2 lacks)", lacks.join(", "));
    finding(about, (Offer::Off, seen), instead, Some(boot))
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
    finding(about, (Offer::No, seen), "cgroup v2", None)
}

fn pmu(system: &System) -> Finding {
    let about = ("PMU", "what host tenants do to memory");
    let instead = "the cache's own counters; host tenants by resctrl or not at all";
    if !system.is_there("sys/bus/event_source/devices/cpu") {
        return finding(about, (Offer::No, "the machine shows no counters (a virtual one?)"), instead, None);
    }
    let paranoid = system.number("proc/sys/kernel/perf_event_paranoid").unwrap_or(0);
    let enable = Some("sysctl -w kernel.perf_event_paranoid=1".to_owned());
    let offer = if paranoid <= 1 { Offer::Yes } else { Offer::Off };
    finding(about, (offer, format!("kernel.perf_event_paranoid is {paranoid}")), instead, enable)
}
