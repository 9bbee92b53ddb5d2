//! A disk that loses what was not synced.
//!
//! After a power cut each file has the bytes of its last sync, and of the later writes any part in
//! any combination of sectors. Names are kept by a sync of their folder, and otherwise at random.
//! That is what POSIX guarantees; file systems usually keep more.

use std::{
    collections::{BTreeMap, HashMap},
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use crate::strace::Operation;

/// A sector is written as a whole or not at all.
const SECTOR: usize = 512;

/// A reproducible source of choices (splitmix64).
pub(crate) struct Random(pub(crate) u64);

/// The part of the unsynced changes that a power cut keeps.
#[derive(Debug, Clone, Copy)]
enum Kept {
    Nothing,
    Everything,
    /// Those up to a moment.
    Beginning,
    /// Each with this many chances of 8.
    Changes(u64),
    /// Each sector with this many chances of 8.
    Sectors(u64),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Entry {
    Folder,
    File(usize),
}

/// A change that is not synced, with its number.
struct Pending<T>(usize, T);

enum Change<'a> {
    Write { offset: usize, bytes: &'a [u8] },
    Resize(usize),
}

#[derive(Default)]
struct File<'a> {
    synced: Vec<u8>,
    pending: Vec<Pending<Change<'a>>>,
}

/// The state of a folder at one moment: as processes see it, and as the disk has it.
pub(crate) struct Disk<'a> {
    files: Vec<File<'a>>,
    /// As processes see it.
    names: BTreeMap<PathBuf, Entry>,
    synced: BTreeMap<PathBuf, Entry>,
    pending: Vec<Pending<(PathBuf, Option<Entry>)>>,
    operations: usize,
}

// === impl Random ===

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number less than `end`.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(end).unwrap()).unwrap()
    }

    fn has(&mut self, chances: u64) -> bool {
        self.next() % 8 < chances
    }

    fn kept(&mut self) -> Kept {
        match self.below(8) {
            0 => Kept::Nothing,
            1 => Kept::Everything,
            2 | 3 => Kept::Beginning,
            4 | 5 => Kept::Changes(1 + self.next() % 7),
            _ => Kept::Sectors(1 + self.next() % 7),
        }
    }
}

// === impl Disk ===

impl<'a> Disk<'a> {
    /// Starts with the files of `before`, all synced.
    pub(crate) fn new(before: &BTreeMap<PathBuf, Vec<u8>>, folders: &[PathBuf]) -> Self {
        let mut names: BTreeMap<_, _> =
            folders.iter().map(|path| (path.clone(), Entry::Folder)).collect();
        let mut files = Vec::new();
        for (path, bytes) in before {
            names.insert(path.clone(), Entry::File(files.len()));
            files.push(File { synced: bytes.clone(), pending: Vec::new() });
        }
        Self { files, synced: names.clone(), names, pending: Vec::new(), operations: 0 }
    }

    pub(crate) fn apply(&mut self, operation: &'a Operation) {
        let number = self.operations;
        self.operations += 1;
        match operation {
            Operation::Open(path) if !self.names.contains_key(path) => {
                self.files.push(File::default());
                self.name(path, Some(Entry::File(self.files.len() - 1)));
            }
            Operation::Open(_) | Operation::Acknowledge(_) => {}
            Operation::Write { path, offset, bytes } => {
                let change = Change::Write { offset: *offset, bytes };
                self.change(path, Pending(number, change));
            }
            Operation::Resize { path, length } => {
                self.change(path, Pending(number, Change::Resize(*length)));
            }
            Operation::CreateFolder(path) => self.name(path, Some(Entry::Folder)),
            Operation::Remove(path) => self.name(path, None),
            Operation::Sync { path, begun } => self.sync(path, *begun),
        }
    }

    fn name(&mut self, path: &Path, entry: Option<Entry>) {
        set(&mut self.names, path, entry);
        self.pending.push(Pending(self.operations - 1, (path.to_owned(), entry)));
    }

    fn change(&mut self, path: &Path, change: Pending<Change<'a>>) {
        let Some(Entry::File(number)) = self.names.get(path) else {
            panic!("{} is not known", path.display())
        };
        self.files[*number].pending.push(change);
    }

    fn sync(&mut self, path: &Path, begun: usize) {
        match self.names.get(path) {
            Some(Entry::File(number)) => {
                let File { synced, pending } = &mut self.files[*number];
                for Pending(_, change) in pending.extract_if(.., |it| it.0 < begun) {
                    change.apply(synced);
                }
            }
            Some(Entry::Folder) => {
                let is_covered =
                    |it: &mut Pending<(PathBuf, _)>| it.0 < begun && it.1.0.parent() == Some(path);
                for Pending(_, (path, entry)) in self.pending.extract_if(.., is_covered) {
                    set(&mut self.synced, &path, entry);
                }
            }
            None => panic!("{} is not known", path.display()),
        }
    }

    /// Returns the number of changes of files that are not synced and that are durable state.
    pub(crate) fn unsynced(&self) -> usize {
        let files = self.names.iter().filter(|(path, _)| is_durable(path));
        files
            .map(|(_, entry)| match entry {
                Entry::File(number) => self.files[*number].pending.len(),
                Entry::Folder => 0,
            })
            .sum()
    }

    /// Returns the files as processes see them.
    pub(crate) fn contents(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        self.files_of(&self.names, &mut Random(0), Kept::Everything)
    }

    /// Returns the files that a power cut leaves, and a description of what it kept.
    pub(crate) fn cut(&self, random: &mut Random) -> (BTreeMap<PathBuf, Vec<u8>>, String) {
        let kept = random.kept();
        let mut names = self.synced.clone();
        // Of the changes of one name, those up to a random one.
        let mut open: HashMap<&Path, bool> = HashMap::new();
        for Pending(_, (path, entry)) in &self.pending {
            let open = open.entry(path).or_insert(true);
            *open = *open
                && match kept {
                    Kept::Nothing => false,
                    Kept::Everything => true,
                    _ => random.has(4),
                };
            if *open {
                set(&mut names, path, *entry);
            }
        }
        // A file is lost with its folder. Paths are sorted, so that folders come first.
        let root = self.names.first_key_value().map(|(path, _)| path);
        let mut reachable = BTreeMap::new();
        for (path, entry) in names {
            if Some(&path) == root || path.parent().is_some_and(|it| reachable.contains_key(it)) {
                reachable.insert(path, entry);
            }
        }
        (self.files_of(&reachable, random, kept), format!("{kept:?}"))
    }

    fn files_of(
        &self,
        names: &BTreeMap<PathBuf, Entry>,
        random: &mut Random,
        kept: Kept,
    ) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut files = BTreeMap::new();
        for (path, entry) in names {
            if let Entry::File(number) = entry {
                files.insert(path.clone(), self.files[*number].after(random, kept));
            }
        }
        files
    }
}

impl File<'_> {
    /// Returns the bytes with the part of the unsynced changes that is kept.
    fn after(&self, random: &mut Random, kept: Kept) -> Vec<u8> {
        let mut bytes = self.synced.clone();
        let beginning = random.below(self.pending.len() + 1);
        for (number, Pending(_, change)) in self.pending.iter().enumerate() {
            let is_kept = match kept {
                Kept::Nothing => false,
                Kept::Everything => true,
                Kept::Beginning => number < beginning,
                Kept::Changes(chances) => random.has(chances),
                Kept::Sectors(chances) => match change {
                    Change::Resize(_) => random.has(chances),
                    Change::Write { offset, bytes: written } => {
                        for (offset, sector) in sectors(*offset, written) {
                            if random.has(chances) {
                                Change::Write { offset, bytes: sector }.apply(&mut bytes);
                            } else if random.has(2) && bytes.len() < offset + sector.len() {
                                // The length is kept without the bytes.
                                bytes.resize(offset + sector.len(), 0);
                            }
                        }
                        false
                    }
                },
            };
            if is_kept {
                change.apply(&mut bytes);
            }
        }
        bytes
    }
}

impl Change<'_> {
    fn apply(&self, file: &mut Vec<u8>) {
        match self {
            Self::Resize(length) => file.resize(*length, 0),
            Self::Write { offset, bytes } => {
                let end = offset + bytes.len();
                if file.len() < end {
                    file.resize(end, 0);
                }
                file[*offset..end].copy_from_slice(bytes);
            }
        }
    }
}

/// Splits a write at the borders of sectors.
fn sectors(offset: usize, mut bytes: &[u8]) -> Vec<(usize, &[u8])> {
    let (mut at, mut parts) = (offset, Vec::new());
    while !bytes.is_empty() {
        let (part, rest) = bytes.split_at(bytes.len().min(SECTOR - at % SECTOR));
        parts.push((at, part));
        at += part.len();
        bytes = rest;
    }
    parts
}

/// The index of the write-ahead log is written through memory, and made again at each start.
pub(crate) fn is_durable(path: &Path) -> bool {
    !path.to_str().is_some_and(|path| path.ends_with("-shm"))
}

fn set(names: &mut BTreeMap<PathBuf, Entry>, path: &Path, entry: Option<Entry>) {
    match entry {
        Some(entry) => names.insert(path.to_owned(), entry),
        None => names.remove(path),
    };
}

/// Returns the files below `folder`.
pub(crate) fn read(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        match entry.file_type().unwrap().is_dir() {
            true => found.extend(read(&entry.path())),
            false => drop(found.insert(entry.path(), fs::read(entry.path()).unwrap())),
        }
    }
    found
}

/// Writes `files` of the folder `from` into the folder `to`.
pub(crate) fn write(files: &BTreeMap<PathBuf, Vec<u8>>, from: &Path, to: &Path) {
    for (path, bytes) in files {
        let path = to.join(path.strip_prefix(from).unwrap());
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, bytes).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    }
}

#[test]
fn a_cut_keeps_what_was_synced_and_any_part_of_the_rest() {
    let path = PathBuf::from("/d/f");
    let write =
        |offset, byte| Operation::Write { path: path.clone(), offset, bytes: vec![byte; 1024] };
    let operations = [
        Operation::Open(path.clone()),
        write(0, 1),
        Operation::Sync { path: path.clone(), begun: 2 },
        // It ended after the sync had begun.
        write(0, 2),
        Operation::Sync { path: path.clone(), begun: 3 },
        Operation::Sync { path: "/d".into(), begun: 5 },
        write(512, 3),
    ];
    let mut disk = Disk::new(&BTreeMap::new(), &["/d".into()]);
    let mut found = std::collections::BTreeSet::new();
    let mut cut = |disk: &Disk<'_>| {
        (0..400).for_each(|seed| {
            let file = disk.cut(&mut Random(seed)).0.remove(&path);
            found
                .insert(file.map(|bytes| bytes.chunks(SECTOR).map(|it| it[0]).collect::<Vec<_>>()));
        });
        std::mem::take(&mut found)
    };
    for operation in &operations[..3] {
        disk.apply(operation);
    }
    assert_eq!(cut(&disk), [None, Some(vec![1, 1])].into(), "its name was not synced");
    for operation in &operations[3..6] {
        disk.apply(operation);
    }
    let expected = [vec![1, 1], vec![1, 2], vec![2, 1], vec![2, 2]].map(Some);
    assert_eq!(cut(&disk), expected.into());
    disk.apply(&operations[6]);
    let all = cut(&disk);
    assert!(all.contains(&Some(vec![1, 3])) && all.contains(&Some(vec![1, 1, 3])), "{all:?}");
    assert!(all.contains(&Some(vec![2, 2, 0])) && !all.contains(&None), "{all:?}");
}
