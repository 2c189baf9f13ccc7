//! The workers of a server in this process on cores of their own, and its clients on the others.
//!
//! Shape:   names of threads -> cores, until it is dropped
//! Failure: with fewer than two cores, or where the system refuses, all stay where they are
//! Source:  a client that wakes on its worker's core waits for it: what one tenant does alone on two cores was 27,000 or 30,000 requests
//!          per second, by where its thread happened to be (measured: `nyx/live_fair`)

use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::fs;

/// What threads of workers are called.
const WORKERS: &str = "worker-";

/// Keeps workers and clients apart until it is dropped.
#[derive(Debug)]
pub struct Cores {
    /// What the calling thread had.
    before: Option<CpuSet>,
}

impl Cores {
    /// From now on workers have the first `workers` cores; the calling thread and those that it starts have the others.
    #[must_use]
    pub fn divide(workers: usize) -> Self {
        let before = sched_getaffinity(None).ok();
        let Some((of_workers, of_clients)) = before.and_then(|all| divided(&all, workers)) else {
            return Self { before: None };
        };
        for id in threads(WORKERS) {
            // One that has ended needs no core.
            let _ended = sched_setaffinity(Some(id), &of_workers);
        }
        let is_done = sched_setaffinity(None, &of_clients).is_ok();
        Self { before: before.filter(|_| is_done) }
    }
}

impl Drop for Cores {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            // What could be set could be before.
            let _set = sched_setaffinity(None, before);
        }
    }
}

/// The first `workers` of cores, and the others; none unless both have some.
fn divided(all: &CpuSet, workers: usize) -> Option<(CpuSet, CpuSet)> {
    let (mut first, mut others) = (CpuSet::new(), CpuSet::new());
    for core in (0..CpuSet::MAX_CPU).filter(|core| all.is_set(*core)) {
        let count = first.count() as usize;
        if count < workers { first.set(core) } else { others.set(core) }
    }
    (first.count() != 0 && others.count() != 0).then_some((first, others))
}

/// Threads of this process whose name begins so.
fn threads(name: &str) -> Vec<Pid> {
    let tasks = fs::read_dir("/proc/self/task").into_iter().flatten().filter_map(Result::ok);
    let is_named = |task: &fs::DirEntry| {
        fs::read_to_string(task.path().join("comm")).is_ok_and(|comm| comm.starts_with(name))
    };
    let id = |task: fs::DirEntry| Pid::from_raw(task.file_name().to_str()?.parse().ok()?);
    tasks.filter(is_named).filter_map(id).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_are_divided_where_both_have_some() {
        let of = |cores: &[usize]| {
            let mut set = CpuSet::new();
            cores.iter().for_each(|core| set.set(*core));
            set
        };
        assert_eq!(divided(&of(&[3, 5, 9]), 1), Some((of(&[3]), of(&[5, 9]))));
        assert_eq!(divided(&of(&[3, 5, 9]), 2), Some((of(&[3, 5]), of(&[9]))));
        for (cores, workers) in [(&[1][..], 1), (&[1, 2], 0), (&[1, 2], 2), (&[], 1)] {
            assert_eq!(divided(&of(cores), workers), None, "{cores:?}");
        }
    }

    #[test]
    fn workers_and_clients_are_apart_until_it_is_dropped() {
        let before = sched_getaffinity(None).unwrap();
        let Some((of_workers, of_clients)) = divided(&before, 1) else {
            println!("skipped: one core");
            return;
        };
        let (stop, stopped) = std::sync::mpsc::channel::<()>();
        let worker = std::thread::Builder::new().name("worker-of-test".to_owned());
        let worker = worker.spawn(move || {
            let _woken = stopped.recv();
            sched_getaffinity(None).unwrap()
        });
        while threads("worker-of-te").is_empty() {
            std::thread::yield_now();
        }
        let cores = Cores::divide(1);
        assert_eq!(sched_getaffinity(None).unwrap(), of_clients);
        drop(stop);
        assert_eq!(worker.unwrap().join().unwrap(), of_workers);
        drop(cores);
        assert_eq!(sched_getaffinity(None).unwrap(), before);
    }
}
