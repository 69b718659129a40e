//! Checkpoint files: a group's machine at one log id, without message bodies. Format version 1.
//!
//! ```text
//! ckpt/<group>/<index>-<term>-<node>.ckpt
//! magic 4 | crc 4 | version 4 | zero 4 | group 8 | index 8 | term 8 | node 8
//! | (length 8, crc 4) of meta, leaders, live, state | meta | leaders | live | state
//! ```
//!
//! The first crc covers the header; each part has its own, so that reclaim reads the live names
//! without the state. Written under a temporary name, synced, renamed, and the directory synced.

use crate::codec::{Reader, put_u32, put_u64, put_varint};
use crate::disk::{Disk, read_exact_at, write_all_at};
use crate::live;
use crate::markers::{leader, put_leader};
use crate::types::{Checkpoint, GroupId, LeaderId, LiveRun, LogId};
use bytes::Bytes;
use std::io::{self, IoSlice};

/// The directory of checkpoints.
pub(crate) const CHECKPOINT_DIR: &str = "ckpt";

const MAGIC: u32 = 0x434b_5948;
const VERSION: u32 = 1;
const PARTS: usize = 4;
const HEADER_BYTES: usize = 48 + PARTS * 12;
const TEMPORARY: &str = "new.tmp";

pub(crate) fn group_dir(group: GroupId) -> String {
    format!("{CHECKPOINT_DIR}/{group}")
}

pub(crate) fn path(group: GroupId, id: LogId) -> String {
    let LogId { leader, index } = id;
    format!(
        "{}/{index:020}-{:016x}-{:016x}.ckpt",
        group_dir(group),
        leader.term,
        leader.node
    )
}

fn parse_name(name: &str) -> Option<LogId> {
    let mut parts = name.strip_suffix(".ckpt")?.split('-');
    let index = parts.next()?.parse().ok()?;
    let term = u64::from_str_radix(parts.next()?, 16).ok()?;
    let node = u64::from_str_radix(parts.next()?, 16).ok()?;
    parts.next().is_none().then_some(LogId {
        leader: LeaderId { term, node },
        index,
    })
}

/// The groups that have checkpoint files.
pub(crate) fn groups(disk: &dyn Disk) -> io::Result<Vec<GroupId>> {
    let names = disk.list(CHECKPOINT_DIR)?;
    Ok(names
        .iter()
        .filter_map(|name| u64::from_str_radix(name, 16).ok())
        .map(GroupId)
        .collect())
}

/// The ids of a group's checkpoint files, oldest first, whatever their state.
pub(crate) fn list(disk: &dyn Disk, group: GroupId) -> io::Result<Vec<LogId>> {
    let names = disk.list(&group_dir(group))?;
    let mut ids: Vec<LogId> = names.iter().filter_map(|name| parse_name(name)).collect();
    ids.sort_by_key(|id| id.index);
    Ok(ids)
}

/// Why a checkpoint could not be written.
#[derive(Debug)]
pub(crate) enum WriteError {
    /// Nothing happened.
    Refused(io::Error),
    /// A sync or a rename failed: what is on the disk is unknown.
    Broken(io::Error),
}

/// Writes a checkpoint durably.
pub(crate) fn write(
    disk: &dyn Disk,
    group: GroupId,
    checkpoint: &Checkpoint,
) -> Result<(), WriteError> {
    let dir = group_dir(group);
    disk.create_dir(&dir).map_err(WriteError::Refused)?;
    disk.sync_dir(CHECKPOINT_DIR).map_err(WriteError::Broken)?;
    let temporary = format!("{dir}/{TEMPORARY}");
    let file = disk.create(&temporary).map_err(WriteError::Refused)?;
    let leaders = encode_leaders(&checkpoint.leaders);
    let live = live::encode(&checkpoint.live);
    let parts: [&[u8]; PARTS] = [&checkpoint.meta, &leaders, &live, &checkpoint.state];
    let header = encode_header(group, checkpoint.id, &parts);
    let mut slices: Vec<IoSlice<'_>> = std::iter::once(&header[..])
        .chain(parts)
        .map(IoSlice::new)
        .collect();
    if let Err(error) = write_all_at(&*file, &mut slices, 0) {
        drop(file);
        // The space is wanted back; a leftover is overwritten by the next checkpoint anyway.
        let _ = disk.remove(&temporary);
        return Err(WriteError::Refused(error));
    }
    file.sync_data().map_err(WriteError::Broken)?;
    disk.rename(&temporary, &path(group, checkpoint.id))
        .map_err(WriteError::Broken)?;
    disk.sync_dir(&dir).map_err(WriteError::Broken)
}

fn encode_header(group: GroupId, id: LogId, parts: &[&[u8]; PARTS]) -> Vec<u8> {
    let mut out = Vec::with_capacity(HEADER_BYTES);
    for field in [MAGIC, 0, VERSION, 0] {
        put_u32(&mut out, field);
    }
    for field in [group.0, id.index, id.leader.term, id.leader.node] {
        put_u64(&mut out, field);
    }
    for part in parts {
        put_u64(&mut out, part.len() as u64);
        put_u32(&mut out, crc32c::crc32c(part));
    }
    let crc = crc32c::crc32c(&out[8..]);
    out[4..8].copy_from_slice(&crc.to_le_bytes());
    out
}

fn encode_leaders(leaders: &[(u64, LeaderId)]) -> Vec<u8> {
    let mut out = Vec::new();
    put_varint(&mut out, leaders.len() as u64);
    for (first, leader) in leaders {
        put_varint(&mut out, *first);
        put_leader(&mut out, *leader);
    }
    out
}

fn decode_leaders(bytes: &[u8]) -> Option<Vec<(u64, LeaderId)>> {
    let mut reader = Reader::new(bytes);
    let count = reader.count()?;
    let leaders: Option<Vec<_>> = (0..count)
        .map(|_| Some((reader.index()?, leader(&mut reader)?)))
        .collect();
    leaders.filter(|_| reader.is_empty())
}

/// A checkpoint file whose header was right.
struct Opened {
    file: std::sync::Arc<dyn crate::disk::DiskFile>,
    /// Offset, length and crc of each part.
    parts: [(u64, u64, u32); PARTS],
}

impl Opened {
    /// `Ok(None)` means that the file is damaged.
    fn open(disk: &dyn Disk, group: GroupId, id: LogId) -> io::Result<Option<Opened>> {
        let file = disk.open(&path(group, id))?;
        let length = file.len()?;
        if length < HEADER_BYTES as u64 {
            return Ok(None);
        }
        let header = read_exact_at(&*file, HEADER_BYTES, 0)?;
        let parts = parse_header(&header, group, id).filter(|parts| {
            let (offset, len, _) = parts[PARTS - 1];
            offset.checked_add(len) == Some(length)
        });
        Ok(parts.map(|parts| Opened { file, parts }))
    }

    fn part(&self, number: usize) -> io::Result<Option<Bytes>> {
        let (offset, len, crc) = self.parts[number];
        let bytes = read_exact_at(&*self.file, len as usize, offset)?;
        Ok((crc32c::crc32c(&bytes) == crc).then(|| Bytes::from(bytes)))
    }
}

fn parse_header(header: &[u8], group: GroupId, id: LogId) -> Option<[(u64, u64, u32); PARTS]> {
    let mut reader = Reader::new(header);
    if reader.u32()? != MAGIC || reader.u32()? != crc32c::crc32c(&header[8..]) {
        return None;
    }
    if reader.u32()? != VERSION || reader.u32()? != 0 {
        return None;
    }
    let named = [reader.u64()?, reader.u64()?, reader.u64()?, reader.u64()?];
    if named != [group.0, id.index, id.leader.term, id.leader.node] {
        return None;
    }
    let mut offset = HEADER_BYTES as u64;
    let mut parts = [(0, 0, 0); PARTS];
    for part in &mut parts {
        let (len, crc) = (reader.u64()?, reader.u32()?);
        *part = (offset, len, crc);
        offset = offset.checked_add(len)?;
    }
    Some(parts)
}

/// Reads a checkpoint whole. `Ok(None)` means that it is damaged.
pub(crate) fn read(disk: &dyn Disk, group: GroupId, id: LogId) -> io::Result<Option<Checkpoint>> {
    let Some(opened) = Opened::open(disk, group, id)? else {
        return Ok(None);
    };
    let (Some(meta), Some(leaders), Some(live), Some(state)) = (
        opened.part(0)?,
        opened.part(1)?,
        opened.part(2)?,
        opened.part(3)?,
    ) else {
        return Ok(None);
    };
    let (Some(leaders), Some(live)) = (decode_leaders(&leaders), live::decode(&live, id)) else {
        return Ok(None);
    };
    Ok(Some(Checkpoint {
        id,
        meta,
        leaders,
        live,
        state,
    }))
}

/// Whether all of a checkpoint is right, read piece by piece; `pace` is told how much was read.
pub(crate) fn is_whole(
    disk: &dyn Disk,
    group: GroupId,
    id: LogId,
    piece: usize,
    pace: &dyn Fn(u64),
) -> io::Result<bool> {
    let Some(opened) = Opened::open(disk, group, id)? else {
        return Ok(false);
    };
    for (offset, len, crc) in opened.parts {
        let (mut at, mut sum) = (offset, 0);
        while at < offset + len {
            let more = (offset + len - at).min(piece as u64);
            let bytes = match read_exact_at(&*opened.file, more as usize, at) {
                Ok(bytes) => bytes,
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(false),
                Err(error) => return Err(error),
            };
            sum = crc32c::crc32c_append(sum, &bytes);
            at += more;
            pace(more);
        }
        if sum != crc {
            return Ok(false);
        }
    }
    Ok(true)
}

/// What reclaim reads of a checkpoint.
pub(crate) struct Names {
    pub(crate) leaders: Vec<(u64, LeaderId)>,
    pub(crate) live: Vec<LiveRun>,
}

/// Reads only the names of a checkpoint. `Ok(None)` means that it is damaged.
pub(crate) fn read_names(disk: &dyn Disk, group: GroupId, id: LogId) -> io::Result<Option<Names>> {
    let Some(opened) = Opened::open(disk, group, id)? else {
        return Ok(None);
    };
    let (Some(leaders), Some(live)) = (opened.part(1)?, opened.part(2)?) else {
        return Ok(None);
    };
    let names = decode_leaders(&leaders).zip(live::decode(&live, id));
    Ok(names.map(|(leaders, live)| Names { leaders, live }))
}

/// Removes a group's directory with all its files, durably.
pub(crate) fn remove_group(disk: &dyn Disk, group: GroupId) -> io::Result<()> {
    let dir = group_dir(group);
    // Reclaim may remove an obsolete checkpoint at the same time.
    let gone = |outcome: io::Result<()>| match outcome {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    };
    for name in disk.list(&dir)? {
        gone(disk.remove(&format!("{dir}/{name}")))?;
    }
    // The directory may be made again: none of the names may come back with it.
    gone(disk.sync_dir(&dir))?;
    gone(disk.remove_dir(&dir))?;
    disk.sync_dir(CHECKPOINT_DIR)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::SimDisk;

    const GROUP: GroupId = GroupId(3);

    fn checkpoint() -> Checkpoint {
        let leader = LeaderId { term: 2, node: 77 };
        Checkpoint {
            id: LogId { leader, index: 41 },
            meta: Bytes::from_static(b"membership"),
            leaders: vec![(0, LeaderId { term: 1, node: 77 }), (30, leader)],
            live: vec![LiveRun {
                first_index: 3,
                entries: 4,
                ordinal: 0,
                count: 9,
            }],
            state: Bytes::from(vec![5; 300]),
        }
    }

    fn written() -> SimDisk {
        let disk = SimDisk::new(1);
        disk.create_dir(CHECKPOINT_DIR).unwrap();
        disk.sync_dir("").unwrap();
        write(&disk, GROUP, &checkpoint()).unwrap();
        disk
    }

    #[test]
    fn round_trips() {
        let disk = written();
        let id = checkpoint().id;
        assert_eq!(list(&disk, GROUP).unwrap(), [id]);
        assert_eq!(read(&disk, GROUP, id).unwrap(), Some(checkpoint()));
        assert_eq!(
            read_names(&disk, GROUP, id).unwrap().unwrap().live,
            checkpoint().live
        );
        assert_eq!(groups(&disk).unwrap(), [GROUP]);
    }

    #[test]
    fn every_flipped_bit_is_noticed() {
        let disk = written();
        let path = path(GROUP, checkpoint().id);
        let length = disk.content(&path).unwrap().len() as u64;
        for offset in 0..length {
            disk.flip_bit(&path, offset, 3);
            let damaged = matches!(read(&disk, GROUP, checkpoint().id), Ok(None));
            assert!(damaged, "flip at {offset} went unnoticed");
            disk.flip_bit(&path, offset, 3);
        }
    }

    /// The format is a promise: this is the header of version 1.
    #[test]
    fn version_1_bytes_still_parse() {
        let bytes = written().content(&path(GROUP, checkpoint().id)).unwrap();
        let hex: String = bytes[..HEADER_BYTES]
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        let known = "48594b43bd740d1b010000000000000003000000000000002900000000000000\
                     02000000000000004d000000000000000a00000000000000e694ab4615000000\
                     000000004dfe4d56050000000000000076ef2df92c01000000000000e1dff968";
        assert_eq!(hex, known);
    }
}
