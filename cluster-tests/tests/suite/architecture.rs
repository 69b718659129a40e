//! The table of `crates/README.md` against the manifests and the tree.
//!
//! The page is the law and the only copy of it: a new arrow, a new member or a library outside its
//! home fails here until the page says so too.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use cargo_metadata::{DependencyKind, Metadata, MetadataCommand, Package};

/// Longer files are about more than one thing.
const MAX_FILE_LINES: usize = 600;

/// Members with this in their last two columns may use anything.
const EVERYTHING: &str = "everything";

/// How the source of a package from a registry begins; one from a repository or a path does not.
const REGISTRY: &str = "registry+";

/// One row of the table.
#[derive(Debug)]
struct Row {
    floor: u32,
    /// The member's folder from the root: `crates/queue`, `proto`.
    folder: String,
    depends_on: BTreeSet<String>,
    libraries: BTreeSet<String>,
}

impl Row {
    /// The word other rows use for this member: the last part of its folder.
    fn word(&self) -> &str {
        self.folder
            .rsplit('/')
            .next()
            .expect("split yields at least one part")
    }

    fn may_use_everything(&self) -> bool {
        self.depends_on.contains(EVERYTHING)
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("cluster-tests is in the root")
        .into()
}

fn table() -> Vec<Row> {
    let page =
        fs::read_to_string(root().join("crates/README.md")).expect("crates/README.md can be read");
    let rows: Vec<Row> = page.lines().filter_map(row).collect();
    assert!(!rows.is_empty(), "crates/README.md has no table of members");
    rows
}

/// A row begins with the number of its floor; headings and prose do not.
fn row(line: &str) -> Option<Row> {
    let cells: Vec<&str> = line.strip_prefix('|')?.split('|').map(str::trim).collect();
    let floor = cells.first()?.parse().ok()?;
    let words = |cell: &str| {
        cell.split(',')
            .map(str::trim)
            .filter(|w| !w.is_empty() && *w != "–")
            .map(String::from)
            .collect()
    };
    Some(Row {
        floor,
        folder: cells[1].trim_matches('`').to_owned(),
        depends_on: words(cells[3]),
        libraries: words(cells[4]),
    })
}

fn metadata() -> Metadata {
    MetadataCommand::new()
        .manifest_path(root().join("Cargo.toml"))
        // Packages of other platforms are not here on a fresh machine, and not needed.
        .no_deps()
        .other_options(vec!["--offline".into(), "--locked".into()])
        .exec()
        .expect("cargo metadata works offline and Cargo.lock is up to date")
}

/// The member's folder from the root, by its package.
fn folder(metadata: &Metadata, package: &Package) -> String {
    let folder = package
        .manifest_path
        .parent()
        .expect("a manifest is in a folder");
    folder
        .strip_prefix(&metadata.workspace_root)
        .expect("a member is in the root")
        .to_string()
}

/// Dependencies that the product is built with: tests may look further.
fn normal_dependencies(package: &Package) -> impl Iterator<Item = &str> {
    let normal = |kind| matches!(kind, DependencyKind::Normal | DependencyKind::Build);
    package
        .dependencies
        .iter()
        .filter(move |d| normal(d.kind))
        .map(|d| d.name.as_str())
}

#[test]
fn members_are_those_of_the_table() {
    let metadata = metadata();
    let members: BTreeSet<String> = metadata
        .workspace_packages()
        .iter()
        .map(|p| folder(&metadata, p))
        .collect();
    let rows: BTreeSet<String> = table().into_iter().map(|r| r.folder).collect();
    assert_eq!(
        members, rows,
        "left: the workspace; right: crates/README.md"
    );
}

#[test]
fn arrows_are_those_of_the_table() {
    let metadata = metadata();
    let packages = metadata.workspace_packages();
    let word_by_package: BTreeMap<&str, String> = packages
        .iter()
        .map(|p| {
            (
                p.name.as_str(),
                folder(&metadata, p).rsplit('/').next().unwrap().to_owned(),
            )
        })
        .collect();
    let rows: BTreeMap<String, Row> = table().into_iter().map(|r| (r.folder.clone(), r)).collect();

    for package in packages {
        let row = &rows[&folder(&metadata, package)];
        if row.may_use_everything() {
            continue;
        }
        let arrows: BTreeSet<String> = normal_dependencies(package)
            .filter_map(|name| word_by_package.get(name).cloned())
            .collect();
        assert_eq!(
            arrows, row.depends_on,
            "what {} depends on (left: its manifest; right: crates/README.md)",
            row.folder
        );
    }
}

#[test]
fn arrows_point_down() {
    let rows = table();
    let floors: BTreeMap<&str, u32> = rows.iter().map(|r| (r.word(), r.floor)).collect();
    for row in rows.iter().filter(|r| !r.may_use_everything()) {
        for below in &row.depends_on {
            let floor = floors
                .get(below.as_str())
                .unwrap_or_else(|| panic!("{} depends on {below}, which has no row", row.folder));
            assert!(
                *floor < row.floor,
                "{} on floor {} uses {below}",
                row.folder,
                row.floor
            );
        }
    }
}

#[test]
fn libraries_stay_in_their_homes() {
    let metadata = metadata();
    let rows = table();
    let kept: BTreeSet<&str> = rows
        .iter()
        .flat_map(|r| &r.libraries)
        .map(String::as_str)
        .collect();
    for package in metadata.workspace_packages() {
        let folder = folder(&metadata, package);
        let row = rows
            .iter()
            .find(|r| r.folder == folder)
            .expect("members are those of the table");
        if row.may_use_everything() {
            continue;
        }
        let used: BTreeSet<String> = normal_dependencies(package)
            .filter(|name| kept.contains(name))
            .map(String::from)
            .collect();
        assert_eq!(
            used, row.libraries,
            "kept libraries of {folder} (left: its manifest; right: crates/README.md)"
        );
    }
}

#[test]
fn every_outside_library_is_from_the_registry() {
    let lock = fs::read_to_string(root().join("Cargo.lock")).unwrap();
    let sources = lock
        .lines()
        .filter_map(|line| line.strip_prefix("source = "));
    let sources: BTreeSet<&str> = sources.map(|source| source.trim_matches('"')).collect();
    assert!(!sources.is_empty(), "Cargo.lock names no source");
    for source in sources {
        assert!(source.starts_with(REGISTRY), "a library is from {source}");
    }
}

#[test]
fn every_member_keeps_the_workspace_lints() {
    for package in metadata().workspace_packages() {
        let manifest = fs::read_to_string(&package.manifest_path).unwrap();
        let inherits = manifest.contains("\n[lints]\nworkspace = true\n");
        assert!(
            inherits,
            "{} lacks `[lints] workspace = true`",
            package.manifest_path
        );
    }
}

#[test]
fn there_is_one_clippy_configuration() {
    let mut found = Vec::new();
    walk(&root(), &mut |path| {
        if matches!(
            path.file_name().and_then(|n| n.to_str()),
            Some("clippy.toml" | ".clippy.toml")
        ) {
            found.push(path.to_owned());
        }
    });
    assert_eq!(found, [root().join("clippy.toml")]);
}

#[test]
fn no_file_is_too_long() {
    walk(&root(), &mut |path| {
        if path.extension().is_none_or(|e| e != "rs") {
            return;
        }
        let text = fs::read_to_string(path).unwrap();
        let generated = text
            .lines()
            .next()
            .is_some_and(|first| first.contains("@generated"));
        let lines = text.lines().count();
        assert!(
            generated || lines <= MAX_FILE_LINES,
            "{} has {lines} lines",
            path.display()
        );
    });
}

/// Calls `visit` with each of our own files: neither built nor git's.
fn walk(folder: &Path, visit: &mut impl FnMut(&Path)) {
    for entry in fs::read_dir(folder).expect("our folders can be read") {
        let path = entry.expect("our folders can be read").path();
        let name = path
            .file_name()
            .and_then(|n| n.to_str())
            .unwrap_or_default();
        if path.is_dir() && name != "target" && name != ".git" {
            walk(&path, visit);
        } else if path.is_file() {
            visit(&path);
        }
    }
}
