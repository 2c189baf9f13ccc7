//! What a tier in a file keeps, and what it refuses. Files are made in the build's folder, which is on a disk.

use super::*;
use crate::device::write_alone;
use crate::{Engine, Ticket};
use std::path::PathBuf;

const SIZE: Bytes = Bytes::mib(2);

/// A folder of its own, removed with what is in it.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let binary = std::env::current_exe().unwrap();
        let path = binary.with_file_name(format!("tier-test-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn tier(&self) -> PathBuf {
        self.0.join("tier")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).unwrap();
    }
}

fn write(tier: &FileTier, at: u64, bytes: &[u8]) {
    write_alone(tier, at, bytes).unwrap();
}

/// A page that says where it is.
fn page(at: u64) -> Vec<u8> {
    at.to_le_bytes().repeat(PAGE_LEN / 8)
}

#[test]
fn bytes_and_notes_are_there_when_it_is_opened_again() {
    let folder = Folder::new("again");
    let identity = {
        let tier = FileTier::open(&folder.tier(), SIZE + Bytes(5)).unwrap();
        assert!(tier.is_new());
        assert_eq!(tier.size(), SIZE);
        let notes = tier.notes().unwrap().words();
        assert!(notes.iter().all(|word| word.load(Ordering::Relaxed) == 0));
        write(&tier, 8192, &[7; 8192]);
        notes[1000].store(42, Ordering::Relaxed);
        tier.settle_notes(1000..1001);
        tier.settle().unwrap();
        tier.identity()
    };
    let tier = FileTier::open(&folder.tier(), SIZE).unwrap();
    assert!(!tier.is_new());
    assert_eq!(tier.identity(), identity);
    assert_eq!(tier.notes().unwrap().words()[1000].load(Ordering::Relaxed), 42);
    let mut bytes = vec![1; 16_384];
    tier.read(4096, &mut bytes).unwrap();
    let expected = [&[0; 4096][..], &[7; 8192], &[0; 4096]].concat();
    assert!(bytes == expected);
}

#[test]
fn memory_that_begins_anywhere_is_read_and_written() {
    let folder = Folder::new("anywhere");
    let tier = FileTier::open(&folder.tier(), SIZE).unwrap();
    let bytes: Vec<u8> = (0..600 << 10).map(|i: u32| (i % 251) as u8).collect();
    let bytes = &bytes[1..1 + (512 << 10)];
    write(&tier, 4096, bytes);
    let mut back = vec![0; bytes.len() + 3];
    tier.read(4096, &mut back[3..]).unwrap();
    assert!(&back[3..] == bytes);
}

#[test]
fn what_is_outside_or_not_in_pages_is_refused() {
    let folder = Folder::new("outside");
    let tier = FileTier::open(&folder.tier(), SIZE).unwrap();
    let kind = |result: io::Result<()>| result.map_err(|e| e.kind());
    for (at, len) in [(SIZE.0, 4096), (SIZE.0 - 4096, 8192), (1, 4096), (0, 100), (u64::MAX - 4095, 4096)] {
        assert_eq!(kind(tier.read(at, &mut vec![0; len])), Err(io::ErrorKind::InvalidInput), "{at} {len}");
        let written = write_alone(&tier, at, &vec![0; len]);
        assert_eq!(kind(written), Err(io::ErrorKind::InvalidInput), "{at} {len}");
    }
}

#[test]
fn a_tier_has_one_server() {
    let folder = Folder::new("one");
    let tier = FileTier::open(&folder.tier(), SIZE).unwrap();
    assert!(matches!(FileTier::open(&folder.tier(), SIZE), Err(TierError::InUse { .. })));
    drop(tier);
    assert!(FileTier::open(&folder.tier(), SIZE).is_ok());
}

#[test]
fn what_cannot_be_a_tier_is_refused_with_its_reason() {
    let folder = Folder::new("refused");
    let open = |path: &Path, size| FileTier::open(path, size).map(|_| ()).unwrap_err();
    assert!(matches!(open(&folder.tier(), Bytes::kib(100)), TierError::TooSmall { .. }));
    let missing = open(&folder.0.join("none/tier"), SIZE);
    assert!(matches!(missing, TierError::NoFolder { .. }), "{missing:?}");
    assert!(missing.cure().unwrap().starts_with("mkdir -p "), "{missing:?}");
    let is_kind = |e: TierError| matches!(e, TierError::Kind { .. });
    assert!(is_kind(open(&folder.0, SIZE)));
    assert!(is_kind(open(Path::new("/dev/zero"), SIZE)));
    let huge = open(&folder.tier(), Bytes(1 << 60));
    assert!(matches!(huge, TierError::System { what: "reserve the room for", .. }), "{huge:?}");
    let left: Vec<_> = std::fs::read_dir(&folder.0).unwrap().collect();
    assert!(left.is_empty(), "nothing is left of it: {left:?}");
}

#[test]
fn a_file_system_in_memory_is_refused() {
    let path = PathBuf::from(format!("/dev/shm/tier-test-{}", std::process::id()));
    if !Path::new("/dev/shm").is_dir() {
        println!("not checked: no /dev/shm");
        return;
    }
    let refused = FileTier::open(&path, SIZE).unwrap_err();
    assert!(matches!(refused, TierError::NoDirectIo { .. }), "{refused:?}");
    assert!(!path.exists());
}

#[test]
fn damage_is_refused_and_named() {
    let folder = Folder::new("damage");
    let identity = FileTier::open(&folder.tier(), SIZE).unwrap().identity();
    let block = Superblock::new(SIZE, identity);
    let good = std::fs::read(folder.tier()).unwrap();
    assert_eq!(good.len() as u64, block.end());
    let refusal = |bytes: &[u8]| {
        std::fs::write(folder.tier(), bytes).unwrap();
        match FileTier::open(&folder.tier(), SIZE) {
            Err(TierError::Damaged { damage, .. }) => damage,
            other => panic!("{other:?}"),
        }
    };
    let changed = |at: usize, by: u8| {
        let mut bytes = good.clone();
        bytes[at] ^= by;
        bytes
    };
    assert_eq!(refusal(&changed(0, 1)), Damage::Foreign);
    assert_eq!(refusal(&changed(8, 3)), Damage::Version(2));
    assert_eq!(refusal(&changed(40, 0x80)), Damage::Checksum);
    assert_eq!(refusal(&[1; 10]), Damage::Foreign);
    let truncated = Damage::Truncated { len: Bytes(block.end() - 1), expected: Bytes(block.end()) };
    assert_eq!(refusal(&good[..good.len() - 1]), truncated);
    std::fs::write(folder.tier(), &good).unwrap();
    let other = FileTier::open(&folder.tier(), SIZE + Bytes::mib(1)).unwrap_err();
    assert!(matches!(other, TierError::Size { found: SIZE, .. }), "{other:?}");
    assert!(FileTier::open(&folder.tier(), SIZE).is_ok(), "and the undamaged one is taken");
}

#[test]
fn an_empty_file_becomes_a_tier() {
    let folder = Folder::new("empty");
    std::fs::write(folder.tier(), b"").unwrap();
    assert!(FileTier::open(&folder.tier(), SIZE).unwrap().is_new());
    assert!(!FileTier::open(&folder.tier(), SIZE).unwrap().is_new());
}

/// Two servers that begin at the same time with the same path: in one process here, which may have the same number in two containers.
#[test]
fn of_two_that_create_a_tier_at_once_one_has_it_and_the_other_is_refused() {
    let folder = Folder::new("twice");
    for round in 0..60 {
        let path = folder.0.join(format!("tier-{round}"));
        if round % 2 == 1 {
            std::fs::write(&path, b"").unwrap();
        }
        let start = std::sync::Barrier::new(2);
        let open = || {
            start.wait();
            FileTier::open(&path, SIZE)
        };
        let both = std::thread::scope(|scope| {
            let other = scope.spawn(open);
            [open(), other.join().unwrap()]
        });
        let (had, refused): (Vec<_>, Vec<_>) = both.into_iter().partition(Result::is_ok);
        assert_eq!(had.len(), 1, "{refused:?}");
        let refused = refused[0].as_ref().unwrap_err();
        let is_sound = matches!(refused, TierError::InUse { .. } | TierError::System { what: "create", .. });
        assert!(is_sound, "{refused:?}");
        let identity = had[0].as_ref().unwrap().identity();
        drop(had);
        let again = FileTier::open(&path, SIZE).unwrap();
        assert_eq!((again.is_new(), again.identity()), (false, identity), "what the one had is there");
        drop(again);
        std::fs::remove_file(&path).unwrap();
    }
    assert_eq!(std::fs::read_dir(&folder.0).unwrap().count(), 0, "nothing is left of what was refused");
}

/// On a shared folder who made it may have this process's number.
#[test]
fn what_another_is_making_beside_it_is_left_alone() {
    let folder = Folder::new("beside");
    let others = folder.0.join(format!("tier.{}.new", std::process::id()));
    std::fs::write(&others, b"another's").unwrap();
    assert!(FileTier::open(&folder.tier(), SIZE).unwrap().is_new());
    assert!(FileTier::open(&folder.0.join("huge"), Bytes(1 << 60)).is_err());
    assert_eq!(std::fs::read(&others).unwrap(), b"another's");
}

#[test]
fn a_tier_behind_a_link_is_made_where_the_link_leads() {
    let folder = Folder::new("link");
    let [near, far] = ["near", "far"].map(|name| folder.0.join(name));
    std::fs::create_dir(&near).unwrap();
    std::fs::create_dir(&far).unwrap();
    let link = |name: &str, to: &Path| {
        let link = near.join(name);
        std::os::unix::fs::symlink(to, &link).unwrap();
        link
    };
    std::fs::write(far.join("empty"), b"").unwrap();
    let names = ["absolute", "relative", "twice", "empty"];
    link("first", Path::new("../far/twice"));
    let links = [
        link("absolute", &far.join("absolute")),
        link("relative", Path::new("../far/relative")),
        link("twice", Path::new("first")),
        link("empty", Path::new("../far/empty")),
    ];
    for (name, link) in names.iter().zip(&links) {
        assert!(FileTier::open(link, SIZE).unwrap().is_new(), "{name}");
        assert!(link.symlink_metadata().unwrap().is_symlink(), "{name} is still a link");
        assert!(far.join(name).symlink_metadata().unwrap().is_file(), "{name}");
        assert!(!FileTier::open(link, SIZE).unwrap().is_new(), "{name}");
    }
    assert_eq!(std::fs::read_dir(&far).unwrap().count(), names.len(), "and nothing beside them");
    let missing = FileTier::open(&link("none", Path::new("../nowhere/tier")), SIZE).unwrap_err();
    assert!(missing.cure().unwrap().contains("nowhere"), "{missing:?}");
}

#[test]
fn a_queue_brings_every_buffer_once_and_filled() {
    let folder = Folder::new("queue");
    let tier = FileTier::open(&folder.tier(), SIZE).unwrap();
    for at in (0..SIZE.0).step_by(4096) {
        write(&tier, at, &page(at));
    }
    for engine in [Engine::Auto, Engine::Threads] {
        let mut queue = tier.queue(8, engine).unwrap();
        println!("{engine:?} is {}", queue.engine_name());
        let (mut wanted, mut came) = (std::collections::BTreeMap::new(), 0);
        let mut offsets = (0..100).map(|i: u64| (i * 37 % 512) * 4096).chain([SIZE.0, 17]);
        let mut next = offsets.next();
        while came < 102 {
            while let Some(at) = next {
                match queue.fetch(at, Buffer::new(Bytes(4096)).unwrap()) {
                    Ok(ticket) => wanted.insert(ticket, at),
                    Err(_full) => break,
                };
                next = offsets.next();
            }
            if came % 2 == 0 {
                queue.submit().unwrap();
                queue.hear();
            }
            queue.wait().unwrap();
            while let Some(completed) = queue.completed() {
                let at = wanted.remove(&completed.ticket).expect("comes once");
                if at < SIZE.0 && at != 17 {
                    completed.result.unwrap();
                    assert!(completed.buffer.bytes() == page(at));
                } else {
                    assert_eq!(completed.result.unwrap_err().kind(), io::ErrorKind::InvalidInput);
                }
                came += 1;
            }
        }
        assert_eq!((queue.under_way(), wanted.len()), (0, 0));
    }
}

#[test]
fn who_waits_after_the_bell_was_silenced_misses_nothing() {
    let folder = Folder::new("silenced");
    let tier = FileTier::open(&folder.tier(), SIZE).unwrap();
    for engine in [Engine::Auto, Engine::Threads] {
        let mut queue = tier.queue(1, engine).unwrap();
        queue.fetch(0, Buffer::new(Bytes(4096)).unwrap()).unwrap();
        queue.submit().unwrap();
        let mut bell = [rustix::event::PollFd::new(&queue, rustix::event::PollFlags::IN)];
        assert_eq!(rustix::event::poll(&mut bell, None).unwrap(), 1);
        queue.hear();
        let (sender, come) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            queue.wait().unwrap();
            sender.send(queue.completed().is_some())
        });
        assert_eq!(come.recv_timeout(std::time::Duration::from_secs(60)), Ok(true), "it waits for ever");
    }
}

#[test]
fn a_queue_begins_to_read_while_more_is_written_down() {
    let folder = Folder::new("begins");
    let tier = FileTier::open(&folder.tier(), SIZE).unwrap();
    for engine in [Engine::Auto, Engine::Threads] {
        let mut queue = tier.queue(8, engine).unwrap();
        for at in 0..8 {
            queue.fetch(at << 12, Buffer::new(Bytes(4096)).unwrap()).unwrap();
        }
        // Nobody has said that these are all: the bell rings nevertheless.
        let mut bell = [rustix::event::PollFd::new(&queue, rustix::event::PollFlags::IN)];
        assert_eq!(rustix::event::poll(&mut bell, None).unwrap(), 1);
        queue.hear();
        assert!(queue.completed().is_some());
    }
}

#[test]
fn a_queue_that_is_full_gives_the_buffer_back_and_one_that_is_dropped_waits() {
    let folder = Folder::new("full");
    let tier = FileTier::open(&folder.tier(), SIZE).unwrap();
    for engine in [Engine::Auto, Engine::Threads] {
        let mut queue = tier.queue(2, engine).unwrap();
        let buffer = || Buffer::new(Bytes(4096)).unwrap();
        assert_eq!(queue.fetch(0, buffer()).unwrap(), Ticket(0));
        assert_eq!(queue.fetch(4096, buffer()).unwrap(), Ticket(1));
        assert!(queue.fetch(8192, buffer()).is_err());
        assert_eq!(queue.under_way(), 2);
    }
}
