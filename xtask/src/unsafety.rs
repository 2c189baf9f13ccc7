//! Unsafe code stays behind its fences: only the named modules hold any, and each of them does.

use crate::Finding;
use crate::rust::{code_only, lines_with_word};

/// The modules that may hold unsafe code, each with the reason. A new one needs a decision record.
pub const FENCES: &[(&str, &str)] = &[
    ("crates/media/src/buffer.rs", "memory for direct I/O, which begins on a page"),
    ("crates/media/src/cold.rs", "loads that no cache answers"),
    ("crates/media/src/dax/mod.rs", "bytes of a mapped device, whose writers keep others away"),
    ("crates/media/src/dax/persistence.rs", "stores past the caches, and instructions for cache lines"),
    ("crates/media/src/device.rs", "bytes of a mapped device, whose writers keep others away"),
    ("crates/media/src/emulated/mod.rs", "bytes of a mapped device, whose writers keep others away"),
    ("crates/media/src/faults/faulty.rs", "hands the contract of `Device::write` on"),
    ("crates/media/src/faults/recorder.rs", "copies of lines that only the recorded thread writes"),
    (
        "crates/media/src/file/lost_pages.rs",
        "a signal's handler that maps memory over pages a disk does not give",
    ),
    ("crates/media/src/file/mod.rs", "the contract of `Device::write`, which mapped devices need"),
    ("crates/media/src/heap.rs", "two settings of the C library's allocator that no safe crate offers"),
    ("crates/media/src/numa.rs", "binding memory to a node, a system call without a safe crate"),
    ("crates/media/src/probe/mod.rs", "writes to a tier that is the prober's alone"),
    ("crates/media/src/queue/uring.rs", "entries that point into buffers which the queue owns"),
    ("crates/media/src/region.rs", "the only memory mapping, behind offsets that are checked"),
    ("crates/media/src/region/advice.rs", "advice about its pages, behind offsets that are checked"),
    ("crates/media/src/stopwatch.rs", "the time stamp counter, which no safe function reads"),
    ("crates/media/src/words.rs", "pages given back that are used as atomic words only"),
    ("crates/server/src/reactor/ring.rs", "io_uring's queues and the memory that it reads and writes"),
    ("crates/store/src/log.rs", "views of item bytes inside a segment"),
    ("crates/store/src/tier/area.rs", "views of record bytes inside a segment of a tier"),
    ("crates/store/src/log/values.rs", "views of values in pages of their own"),
    ("crates/store/src/log/surplus.rs", "giving memory of free segments back that are too many"),
    ("crates/store/src/log/warm.rs", "giving pages of values back that nobody can look at"),
];

/// Checks the Rust `files` (path and text) against `fences` (path and reason).
#[must_use]
pub fn check(files: &[(String, String)], fences: &[(&str, &str)]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in files {
        let fenced = fences.iter().any(|(fence, _)| fence == path);
        match (lines_with_word(&code_only(text), "unsafe").first(), fenced) {
            (Some(&line), false) => {
                findings.push(Finding::at(path, line, format!("unsafe outside of {}", file!())))
            }
            (None, true) => {
                findings.push(Finding::new(path, "is listed as holding unsafe code but holds none"))
            }
            _ => {}
        }
    }
    for (fence, reason) in fences {
        if !files.iter().any(|(path, _)| path == fence) {
            findings.push(Finding::new(fence, "is listed as holding unsafe code but does not exist"));
        }
        if reason.is_empty() {
            findings.push(Finding::new(fence, "is listed as holding unsafe code without a reason"));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(path: &str, text: &str, fences: &[(&str, &str)]) -> usize {
        check(&[(path.to_owned(), text.to_owned())], fences).len()
    }

    #[test]
    fn unsafe_outside_a_fence_is_found() {
        assert_eq!(findings("a.rs", "unsafe { f() }", &[]), 1);
        assert_eq!(findings("a.rs", "unsafe fn f() {}", &[("a.rs", "why")]), 0);
    }

    #[test]
    fn talking_about_it_is_allowed() {
        assert_eq!(findings("a.rs", "#![deny(unsafe_code)] // unsafe\nf(\"unsafe\")", &[]), 0);
    }

    #[test]
    fn a_fence_around_nothing_is_found() {
        assert_eq!(findings("a.rs", "fn f() {}", &[("a.rs", "why")]), 1);
        assert_eq!(findings("a.rs", "fn f() {}", &[("b.rs", "why")]), 1);
        assert_eq!(findings("a.rs", "unsafe {}", &[("a.rs", "")]), 1);
    }
}
