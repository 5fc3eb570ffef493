//! Folders that are made again and again: a file with the same text stays, so that cargo, which looks at times, builds little again.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// Writes a file, unless it has these bytes. Makes its folder.
pub fn put(file: &Path, bytes: &[u8]) -> Result<()> {
    if fs::read(file).is_ok_and(|there| there == bytes) {
        return Ok(());
    }
    let folder = file.parent().context("a file has a folder")?;
    fs::create_dir_all(folder)?;
    fs::write(file, bytes).with_context(|| file.display().to_string())
}

/// Removes all other files of a folder and of those in it.
pub fn remove_others(folder: &Path, kept: &BTreeSet<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            remove_others(&path, kept)?;
        } else if !kept.contains(&path) {
            fs::remove_file(&path)?;
        }
    }
    Ok(())
}

/// Makes the files of one folder those of another.
pub fn mirror(from: &Path, to: &Path) -> Result<()> {
    let mut kept = BTreeSet::new();
    put_all(from, to, &mut kept)?;
    remove_others(to, &kept)
}

fn put_all(from: &Path, to: &Path, kept: &mut BTreeSet<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (path, copy) = (entry.path(), to.join(entry.file_name()));
        if path.is_dir() {
            put_all(&path, &copy, kept)?;
        } else {
            let bytes = fs::read(&path).with_context(|| path.display().to_string())?;
            put(&copy, &bytes)?;
            kept.insert(copy);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_the_same_stays_and_the_rest_is_exchanged() {
        let folder = tempfile::tempdir().unwrap();
        let [from, to] = ["from", "to"].map(|name| folder.path().join(name));
        let write = |root: &Path, name: &str, text: &str| put(&root.join(name), text.as_bytes());
        for (name, text) in [("same", "1"), ("in/other", "2"), ("in/new", "3")] {
            write(&from, name, text).unwrap();
        }
        for (name, text) in [("same", "1"), ("in/other", "x"), ("gone", "4")] {
            write(&to, name, text).unwrap();
        }
        let before = fs::metadata(to.join("same")).unwrap().modified().unwrap();
        mirror(&from, &to).unwrap();
        let read = |name: &str| fs::read_to_string(to.join(name)).ok();
        let files = ["same", "in/other", "in/new", "gone"].map(read);
        let expected = [Some("1"), Some("2"), Some("3"), None];
        assert_eq!(files.each_ref().map(Option::as_deref), expected);
        let after = fs::metadata(to.join("same")).unwrap().modified().unwrap();
        assert_eq!(before, after);
    }
}
