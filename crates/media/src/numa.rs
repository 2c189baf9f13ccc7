//! A slow tier in the memory of one NUMA node: CXL memory, or another socket's.
//!
//! Shape:       anonymous memory, bound to the node before it is touched
//! Invariants:  no page of it comes from another node: when the node is full, touching it ends the process as any memory that is
//!              not there does, so `new` touches it all
//! Assumptions: 1. `mbind` with `MPOL_BIND` holds for every page that is touched after it; 2. what a node's memory is slower by is
//!              the machine's matter, not asked here
//! Failure:     a node without memory, or with too little that is free or kept of files alone, is refused; so is a system that forbids
//!              `mbind` (some container profiles do)
//! Source:      mbind(2); Linux, Documentation/admin-guide/mm/numa_memory_policy.rst

#![allow(unsafe_code, reason = "one system call that no safe crate offers; see the SAFETY comment")]

use crate::device::{copy_in, copy_out};
use crate::file::{PAGE_LEN, TierError};
use crate::{Device, Region, Survival, WordRegion};
use std::io;
use std::ops::Range;
use std::path::PathBuf;
use units::Bytes;

/// Memory of one NUMA node.
#[derive(Debug)]
pub struct NumaTier {
    region: Region,
    node: u32,
}

/// Highest node that is asked for (Linux: `MAX_NUMNODES` is 1024 at most).
const NODES_MAX: u32 = 1024;
/// Bits of a word of the mask of nodes.
const BITS: u32 = u64::BITS;
const LINE: Bytes = Bytes(crate::model::LINE);

impl NumaTier {
    /// Zeroed memory of `size` on `node`, all of it touched.
    ///
    /// # Errors
    /// If the node has no memory, not enough of it, or the system refuses.
    pub fn new(node: u32, size: Bytes) -> Result<Self, TierError> {
        let folder = PathBuf::from(format!("/sys/devices/system/node/node{node}"));
        let described = std::fs::read_to_string(folder.join("meminfo")).ok().filter(|_| node < NODES_MAX);
        let left = described.as_deref().and_then(left_in).ok_or(TierError::NoNode { node })?;
        let refused = |what, cause| TierError::System { what, path: folder.clone(), cause };
        if left < size {
            let cause = io::Error::new(
                io::ErrorKind::OutOfMemory,
                format!("{left} of {size} are free or can be freed"),
            );
            return Err(refused("take memory of", cause));
        }
        let region = Region::anonymous(size)?;
        bind(&region, node).map_err(|cause| refused("bind memory to", cause))?;
        region.prefer_huge_pages();
        region.leave_out_of_dumps();
        touch(&region, region.populate(0, region.len())).map_err(|cause| refused("take memory of", cause))?;
        Ok(Self { region, node })
    }

    /// The node.
    #[must_use]
    pub fn node(&self) -> u32 {
        self.node
    }
}

impl Device for NumaTier {
    fn size(&self) -> Bytes {
        Bytes(self.region.len() as u64)
    }

    fn access_unit(&self) -> Bytes {
        LINE
    }

    fn survival(&self) -> Survival {
        Survival::Nothing
    }

    fn mapped(&self) -> Option<&Region> {
        Some(&self.region)
    }

    fn notes(&self) -> Option<&WordRegion> {
        None
    }

    fn settle_notes(&self, _words: Range<usize>) {}

    unsafe fn write(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        // SAFETY: the caller keeps others away.
        unsafe { copy_in(&self.region, at, bytes) }
    }

    fn read(&self, at: u64, into: &mut [u8]) -> io::Result<()> {
        copy_out(&self.region, at, into)
    }

    fn settle(&self) -> io::Result<()> {
        Ok(())
    }
}

/// Memory that a node can give by its description: what is free, and what the system keeps of files until it is wanted. None if the node
/// has no memory.
fn left_in(described: &str) -> Option<Bytes> {
    let of = |name: &str| -> Option<Bytes> {
        let mut words = described.lines().map(str::split_ascii_whitespace);
        let [kib, unit] = words.find_map(|mut words| {
            words.find(|word| *word == name)?;
            Some([words.next()?, words.next()?])
        })?;
        if unit == "kB" { kib.parse().ok().map(Bytes::kib) } else { None }
    };
    of("MemTotal:").filter(|total| Bytes::ZERO < *total)?;
    let kept = ["Active(file):", "Inactive(file):", "SReclaimable:"].into_iter().filter_map(of);
    Some(kept.fold(of("MemFree:")?, |left, kept| left + kept))
}

fn bind(region: &Region, node: u32) -> io::Result<()> {
    let mut mask = [0_u64; (NODES_MAX / BITS) as usize];
    mask[(node / BITS) as usize] |= 1 << (node % BITS);
    // SAFETY: mbind(addr, len, mode, nodemask, maxnode, flags): the range is exactly this live mapping, which is not touched yet;
    // the mask has the bits that are named (the system reads one less than `maxnode`), and is only read.
    let answer = unsafe {
        libc::syscall(
            libc::SYS_mbind,
            region.start().as_ptr(),
            region.len(),
            libc::MPOL_BIND,
            mask.as_ptr(),
            u64::from(NODES_MAX) + 1,
            0,
        )
    };
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Makes sure that a region that nobody knows yet is touched, after the system has, or was asked to.
fn touch(region: &Region, populated: io::Result<()>) -> io::Result<()> {
    match populated {
        // Linux before 5.14 does not know the advice.
        Err(refused) if refused.kind() == io::ErrorKind::InvalidInput => {
            let mut pages = (0..region.len() as u64).step_by(PAGE_LEN);
            // SAFETY: nobody else has the region, which is zero.
            pages.try_for_each(|at| unsafe { copy_in(region, at, &[0]) })
        }
        done => done,
    }
}

#[cfg(test)]
#[cfg(not(miri))]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_is_not_there_is_refused() {
        for node in [999, NODES_MAX, u32::MAX] {
            let refused = NumaTier::new(node, Bytes::mib(1)).unwrap_err();
            assert!(matches!(refused, TierError::NoNode { node: named } if named == node), "{refused:?}");
            assert!(refused.cure().is_some());
        }
    }

    #[test]
    fn the_first_node_gives_memory_and_not_more_than_it_has() {
        let described = std::fs::read_to_string("/sys/devices/system/node/node0/meminfo");
        if described.ok().as_deref().and_then(left_in).is_none() {
            println!("not checked: the system describes no nodes");
            return;
        }
        match NumaTier::new(0, Bytes::mib(1)) {
            Ok(tier) => {
                crate::device::write_alone(&tier, 64, &[5; 64]).unwrap();
                let mut back = [0; 64];
                tier.read(64, &mut back).unwrap();
                assert_eq!((back, tier.node()), ([5; 64], 0));
            }
            Err(refused) => println!("not checked: {refused:?}"),
        }
        assert!(matches!(NumaTier::new(0, Bytes(1 << 50)), Err(TierError::System { .. })));
    }

    #[test]
    fn memory_that_could_not_be_touched_is_refused_and_touched_by_hand_where_the_advice_is_not_known() {
        let region = Region::anonymous(Bytes::mib(1)).unwrap();
        let answer = |code| touch(&region, Err(io::Error::from_raw_os_error(code)));
        assert_eq!(answer(libc::ENOMEM).unwrap_err().raw_os_error(), Some(libc::ENOMEM));
        answer(libc::EINVAL).unwrap();
        let mut pages = vec![0_u8; region.len() / PAGE_LEN];
        // SAFETY: the range is exactly the live mapping, and there is a byte for each of its pages.
        let asked =
            unsafe { libc::mincore(region.start().as_ptr().cast(), region.len(), pages.as_mut_ptr()) };
        assert_eq!(asked, 0);
        assert!(pages.iter().all(|page| page & 1 != 0), "each of them is there");
        assert!(touch(&region, Ok(())).is_ok());
    }

    /// Names a node whose memory a tier is to be of: `tests/vm/test_numa.py` has one without processors. Else it is the first.
    const NODE: &str = "COTENANT_TEST_NUMA";

    #[test]
    fn every_page_of_a_tier_is_its_node_s() {
        let node = std::env::var(NODE).map_or(0, |node| node.parse().unwrap());
        let tier = match NumaTier::new(node, Bytes::mib(16)) {
            Ok(tier) => tier,
            Err(refused) => {
                assert!(std::env::var(NODE).is_err(), "{refused:?}");
                println!("not checked: {refused:?}");
                return;
            }
        };
        let maps = std::fs::read_to_string("/proc/self/numa_maps").unwrap();
        let start = format!("{:x} ", tier.region.start().as_ptr().addr());
        let pages = maps.lines().find_map(|line| line.strip_prefix(&start)).unwrap();
        let here = format!("N{node}=");
        let of = |word: &str| word.starts_with('N') && word[1..].starts_with(|c: char| c.is_ascii_digit());
        let nodes: Vec<_> = pages.split(' ').filter(|word| of(word)).collect();
        assert!(pages.starts_with("bind:") && nodes.len() == 1 && nodes[0].starts_with(&here), "{pages}");
    }

    /// As Linux 6.1 describes a node that has read many files.
    const DESCRIBED: &str = "\
Node 1 MemTotal:        8388608 kB
Node 1 MemFree:          102400 kB
Node 1 MemUsed:         8286208 kB
Node 1 SwapCached:            0 kB
Node 1 Active:          3145728 kB
Node 1 Inactive:        2097152 kB
Node 1 Active(anon):    1048576 kB
Node 1 Inactive(anon):    51200 kB
Node 1 Active(file):    2097152 kB
Node 1 Inactive(file):  2045952 kB
Node 1 Unevictable:        1024 kB
Node 1 FilePages:       4145152 kB
Node 1 KReclaimable:     307200 kB
Node 1 Slab:             409600 kB
Node 1 SReclaimable:     204800 kB
Node 1 SUnreclaim:       204800 kB
Node 1 HugePages_Total:     0
";

    #[test]
    fn what_a_node_keeps_of_files_can_be_had() {
        let all = Bytes::kib(102_400 + 2_097_152 + 2_045_952 + 204_800);
        assert_eq!(left_in(DESCRIBED), Some(all));
        let without = |name: &str| {
            let lines = DESCRIBED.lines().filter(|line| !line.contains(name));
            left_in(&lines.collect::<Vec<_>>().join("\n"))
        };
        assert_eq!(without("SReclaimable"), Some(all - Bytes::kib(204_800)), "a system that does not say so");
        assert_eq!([without("MemFree"), without("MemTotal")], [None, None]);
    }

    #[test]
    fn a_description_without_memory_is_no_node() {
        assert_eq!(left_in(""), None);
        assert_eq!(left_in("Node 2 MemTotal:       0 kB\nNode 2 MemFree:        0 kB\n"), None);
    }
}
