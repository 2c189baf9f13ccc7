//! What the doctor says of machines that are described by a few files.

use super::*;
use std::path::PathBuf;

/// A machine's description in a folder of its own.
struct Machine(PathBuf);

impl Machine {
    fn new(name: &str, files: &[(&str, &str)]) -> Self {
        let binary = std::env::current_exe().unwrap();
        let root = binary.with_file_name(format!("doctor-{name}-{}", std::process::id()));
        for (path, text) in files {
            let path = root.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        std::fs::create_dir_all(&root).unwrap();
        Self(root)
    }

    fn says(&self, tried: &Tried) -> Vec<Finding> {
        examine(&self.0, tried)
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).unwrap();
    }
}

fn tried(direct_io: Result<(), String>, io_uring: Option<bool>) -> Tried {
    let sockets = if io_uring == Some(true) { Ok(()) } else { Err("forbidden".to_owned()) };
    Tried { folder: PathBuf::from("/here"), direct_io, io_uring, sockets }
}

fn of<'a>(findings: &'a [Finding], name: &str) -> &'a Finding {
    findings.iter().find(|finding| finding.name == name).expect(name)
}

#[test]
fn a_machine_with_nothing_gets_an_alternative_for_everything() {
    let machine = Machine::new("nothing", &[]);
    let findings = machine.says(&tried(Err("no disk".to_owned()), None));
    assert_eq!(findings.len(), 10);
    for finding in &findings {
        let refused = if finding.name == "io_uring" { Offer::Off } else { Offer::No };
        assert_eq!(finding.offer, refused, "{finding:?}");
        assert!(!finding.instead.is_empty(), "{finding:?}");
    }
}

#[test]
fn a_machine_with_everything_needs_no_command() {
    let machine = Machine::new(
        "all",
        &[
            (
                "proc/mounts",
                "/dev/pmem0 /mnt/pmem ext4 rw,dax=always 0 0\nresctrl /sys/fs/resctrl resctrl rw 0 0\n\
                 cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\ncgroup /sys/fs/cgroup/memory cgroup rw,memory 0 0\n",
            ),
            ("sys/fs/resctrl/info/MB/min_bandwidth", "10\n"),
            ("sys/fs/cgroup/cgroup.controllers", "cpuset cpu io memory pids\n"),
            ("sys/devices/system/node/node0/cpulist", "0-3\n"),
            ("sys/devices/system/node/node0/meminfo", "Node 0 MemTotal:  1024 kB\n"),
            ("sys/devices/system/node/node1/cpulist", "\n"),
            ("sys/devices/system/node/node1/meminfo", "Node 1 MemTotal:  1024 kB\n"),
            ("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n"),
            ("proc/sys/vm/unprivileged_userfaultfd", "1\n"),
            ("proc/sys/kernel/perf_event_paranoid", "-1\n"),
            ("sys/bus/event_source/devices/cpu/type", "4\n"),
        ],
    );
    for finding in machine.says(&tried(Ok(()), Some(true))) {
        assert_eq!(
            (finding.offer, finding.enable.as_deref(), finding.instead),
            (Offer::Yes, None, ""),
            "{finding:?}"
        );
    }
}

#[test]
fn what_is_off_comes_with_the_command_that_enables_it() {
    let machine = Machine::new(
        "off",
        &[
            ("proc/sys/kernel/io_uring_disabled", "2\n"),
            ("sys/block/pmem0/size", "1\n"),
            ("sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]\n"),
        ],
    );
    let findings = machine.says(&tried(Ok(()), Some(false)));
    for (name, command) in [
        ("io_uring", "sysctl -w kernel.io_uring_disabled=0"),
        ("DAX", "mount -o dax /dev/pmem0 /mnt/pmem0"),
        ("huge pages", "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled"),
    ] {
        let finding = of(&findings, name);
        assert_eq!((finding.offer, finding.enable.as_deref()), (Offer::Off, Some(command)), "{finding:?}");
        assert!(!finding.instead.is_empty());
    }
}

#[test]
fn nothing_is_to_be_changed_for_what_is_not_there_yet() {
    let machine = Machine::new(
        "not-yet",
        &[
            ("proc/mounts", "cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n"),
            ("sys/fs/cgroup/unified/cgroup.controllers", "cpu\n"),
            ("proc/filesystems", "nodev\tresctrl\n\text4\n"),
            ("proc/cpuinfo", "processor\t: 0\nflags\t\t: fpu mba clwb\n"),
            ("proc/sys/vm/unprivileged_userfaultfd", "0\n"),
            ("proc/sys/kernel/perf_event_paranoid", "2\n"),
            ("sys/bus/event_source/devices/cpu/type", "4\n"),
        ],
    );
    let findings = machine.says(&tried(Ok(()), Some(true)));
    for name in ["userfaultfd", "resctrl", "cgroup v2", "PMU"] {
        let finding = of(&findings, name);
        assert_eq!((finding.offer, finding.enable.as_deref()), (Offer::Off, None), "{finding:?}");
        assert!(
            finding.purpose.ends_with("not there yet") && finding.instead.starts_with("nothing"),
            "{finding:?}"
        );
    }
}

#[test]
fn nodes_are_listed_by_what_they_have_and_one_without_memory_is_no_tier() {
    let node = "sys/devices/system/node";
    for (name, memory, offer, seen) in [
        ("no-memory", "0", Offer::No, "nodes with memory: 0; without memory: 1"),
        ("memory", "1024", Offer::Yes, "nodes with memory: 0, 1; without processors: 1"),
    ] {
        let paths = [0, 1].map(|n| (format!("{node}/node{n}/cpulist"), format!("{node}/node{n}/meminfo")));
        let second = format!("Node 1 MemTotal:  {memory} kB\nNode 1 MemFree:  0 kB\n");
        let files = [
            (&*paths[0].0, "0-3\n"),
            (&*paths[0].1, "Node 0 MemTotal:  1024 kB\n"),
            (&*paths[1].0, "\n"),
            (&*paths[1].1, &*second),
        ];
        let findings = Machine::new(name, &files).says(&tried(Ok(()), None));
        let found = of(&findings, "NUMA");
        assert_eq!((found.offer, found.seen.as_str()), (offer, seen));
    }
}

#[test]
fn counters_are_those_of_processors_whatever_they_are_called_and_for_who_may() {
    let right = |bit: u32| format!("Name:\tx\nCapEff:\t{:016x}\n", 1_u64 << bit);
    for (device, paranoid, status, offer) in [
        ("cpu/type", "0", right(0), Offer::Yes),
        ("cpu/type", "1", right(0), Offer::Off),
        ("cpu/type", "4", right(38), Offer::Yes),
        ("cpu/type", "2", right(21), Offer::Yes),
        ("cpu_core/cpus", "-1", right(0), Offer::Yes),
        ("armv8_pmuv3_0/cpus", "-1", right(0), Offer::Yes),
        ("uncore_imc_0/cpumask", "-1", right(0), Offer::No),
    ] {
        let device = format!("sys/bus/event_source/devices/{device}");
        let files = [
            (&*device, "0\n"),
            ("proc/sys/kernel/perf_event_paranoid", paranoid),
            ("proc/self/status", &*status),
        ];
        let findings = Machine::new("counters", &files).says(&tried(Ok(()), None));
        assert_eq!(of(&findings, "PMU").offer, offer, "{device} {paranoid} {status}");
    }
}

#[test]
fn sockets_are_judged_by_themselves_and_not_by_files() {
    let machine = Machine::new("sockets", &[]);
    for (sockets, reads, offer, instead) in [
        (true, None, Offer::Yes, ""),
        (true, Some(false), Offer::Off, "threads read files"),
        (false, Some(true), Offer::Off, "epoll waits for sockets"),
    ] {
        let sockets = if sockets { Ok(()) } else { Err("forbidden".to_owned()) };
        let findings = machine.says(&Tried { sockets, ..tried(Ok(()), reads) });
        let found = of(&findings, "io_uring");
        assert_eq!((found.offer, found.instead), (offer, instead), "{found:?}");
    }
    // Where no file can be made sockets are what they are elsewhere.
    let there = Tried::in_folder(Path::new("/proc"));
    assert_eq!((there.sockets, there.io_uring), (Tried::in_folder(&machine.0).sockets, None));
}

#[test]
fn control_of_caches_alone_is_no_control_of_bandwidth() {
    let mounted = [
        ("proc/mounts", "resctrl /sys/fs/resctrl resctrl rw 0 0\n"),
        ("sys/fs/resctrl/info/L3/num_closids", "16\n"),
    ];
    let known = [
        ("proc/filesystems", "nodev\tresctrl\n"),
        ("proc/cpuinfo", "flags\t\t: fpu rdt_a cat_l3 cqm_mbm_total\n"),
    ];
    for (name, files) in [("caches", mounted), ("no-mba", known)] {
        let machine = Machine::new(name, &files);
        let findings = machine.says(&tried(Ok(()), None));
        let found = of(&findings, "resctrl");
        assert_eq!((found.offer, found.enable.as_deref()), (Offer::No, None), "{found:?}");
    }
}

#[test]
fn text_and_json_say_the_same() {
    let machine = Machine::new("text", &[]);
    let findings = machine.says(&Tried::in_folder(Path::new("/proc")));
    let (text, json) = (to_text(&findings), to_json(&findings));
    for (i, finding) in findings.iter().enumerate() {
        assert!(text.contains(finding.name) && text.contains(finding.instead), "{finding:?}");
        assert_eq!(json["findings"][i]["name"], finding.name);
    }
    assert_eq!(of(&findings, "direct I/O").offer, Offer::No, "nothing can be made there");
}

#[test]
fn trying_leaves_nothing() {
    let machine = Machine::new("trying", &[]);
    let tried = Tried::in_folder(&machine.0);
    assert_eq!(tried.io_uring.is_some(), tried.direct_io.is_ok());
    assert_eq!(std::fs::read_dir(&machine.0).unwrap().count(), 0);
}
