//! A file that is written beside its place, under a name that nobody knows before, and has its own name once it is whole.
//!
//! Invariants: nothing that is there, or that somebody puts there meanwhile, is opened, followed or emptied; what does not get
//!             its name leaves nothing behind
//! Assumptions: 1. `O_EXCL` follows no link and opens no file that is there (open(2)); 2. a rename replaces a link, not what it
//!              leads to (rename(2))

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// A name beside a path that nobody else has, whatever its process or machine.
#[must_use]
pub fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut beside = path.as_os_str().to_owned();
    beside.push(format!(".{:032x}.{ending}", u128::from_le_bytes(identity())));
    PathBuf::from(beside)
}

/// Bytes that nobody else has.
pub(crate) fn identity() -> [u8; 16] {
    let mut identity = [0; 16];
    // The random device does not fail once the system is up; then the name is no secret, only less unique.
    let _filled = rustix::rand::getrandom(&mut identity, rustix::rand::GetRandomFlags::empty());
    identity
}

/// A file that has not got its name yet.
#[derive(Debug)]
pub struct NewFile {
    file: File,
    path: PathBuf,
    beside: Beside,
}

/// The name that it has meanwhile; gone with this.
#[derive(Debug)]
struct Beside(PathBuf);

impl NewFile {
    /// A file that is to be at `path`.
    ///
    /// # Errors
    /// If none can be made beside it.
    pub fn create(path: &Path) -> io::Result<Self> {
        Self::open(path, OpenOptions::new().write(true))
    }

    /// A file that is to be at `path`, opened so.
    pub(crate) fn open(path: &Path, options: &mut OpenOptions) -> io::Result<Self> {
        let beside = beside(path, "new");
        let file = options.create_new(true).open(&beside)?;
        Ok(Self { file, path: path.to_owned(), beside: Beside(beside) })
    }

    /// The file, for whoever fills it.
    #[must_use]
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Gives it its name, which nothing else has afterwards.
    ///
    /// # Errors
    /// If the system refuses, as where a folder has the name.
    pub fn replace(self) -> io::Result<File> {
        std::fs::rename(&self.beside.0, &self.path)?;
        Ok(self.file)
    }

    /// Gives it its name in the place of `there`, or of nothing. Two that hold a lock on `there` do not both succeed.
    ///
    /// # Errors
    /// `AlreadyExists` if the name is something else's; else if the system refuses.
    pub fn take_place_of(self, there: Option<&File>) -> io::Result<File> {
        match there {
            Some(there) if is_at(there, &self.path)? => self.replace(),
            Some(_) => Err(io::ErrorKind::AlreadyExists.into()),
            None => {
                name_anew(&self.beside.0, &self.path)?;
                Ok(self.file)
            }
        }
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        // Where the file has its name there is nothing, and what has not got it is of no use.
        let _removed = std::fs::remove_file(&self.0);
    }
}

/// Gives a file a name that nothing has.
fn name_anew(beside: &Path, path: &Path) -> io::Result<()> {
    match renameat_with(CWD, beside, CWD, path, RenameFlags::NOREPLACE) {
        // Some file systems know no such rename, NFS among them; a link takes nothing's place either.
        Err(Errno::INVAL | Errno::NOSYS) => std::fs::hard_link(beside, path),
        done => Ok(done?),
    }
}

/// Whether a file is what the path names.
fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    let there = match path.metadata() {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(false),
        there => there?,
    };
    let file = file.metadata()?;
    Ok((file.dev(), file.ino()) == (there.dev(), there.ino()))
}

#[cfg(test)]
#[cfg(not(miri))]
mod tests {
    use super::*;
    use std::io::Write as _;

    /// A folder of its own, and a name in it.
    fn place(name: &str) -> (PathBuf, PathBuf) {
        let name = format!("new-file-{name}-{}", std::process::id());
        let folder = std::env::current_exe().unwrap().with_file_name(name);
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("file");
        (folder, path)
    }

    fn names(folder: &Path) -> usize {
        folder.read_dir().unwrap().count()
    }

    #[test]
    fn links_are_replaced_and_what_they_lead_to_stays() {
        let (folder, path) = place("links");
        let other = folder.join("other");
        std::fs::write(&other, "another's").unwrap();
        std::os::unix::fs::symlink(&other, &path).unwrap();
        let file = NewFile::create(&path).unwrap();
        file.file().write_all(b"mine").unwrap();
        file.replace().unwrap();
        assert_eq!(std::fs::read(&other).unwrap(), b"another's");
        assert_eq!((std::fs::read(&path).unwrap(), path.is_symlink()), (b"mine".to_vec(), false));
        assert_eq!(names(&folder), 2);
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn what_gets_no_name_leaves_nothing() {
        let (folder, path) = place("nothing");
        drop(NewFile::create(&path).unwrap());
        assert_eq!(names(&folder), 0);
        std::fs::create_dir_all(path.join("full")).unwrap();
        assert!(NewFile::create(&path).unwrap().replace().is_err());
        assert_eq!(names(&folder), 1);
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn one_takes_the_place_of_nothing_and_of_what_it_knows_alone() {
        let (folder, path) = place("places");
        let first = NewFile::create(&path).unwrap().take_place_of(None).unwrap();
        let taken = NewFile::create(&path).unwrap().take_place_of(None).unwrap_err();
        assert_eq!(taken.kind(), io::ErrorKind::AlreadyExists);
        let second = NewFile::create(&path).unwrap().take_place_of(Some(&first)).unwrap();
        let taken = NewFile::create(&path).unwrap().take_place_of(Some(&first)).unwrap_err();
        assert_eq!(taken.kind(), io::ErrorKind::AlreadyExists);
        assert!(is_at(&second, &path).unwrap());
        assert_eq!(names(&folder), 1);
        std::fs::remove_dir_all(folder).unwrap();
    }
}
