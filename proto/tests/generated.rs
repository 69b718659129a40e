//! The committed code is what the `.proto` files say.

use std::fs;
use std::path::Path;

#[test]
fn committed_code_matches_the_proto_files() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let out = tempfile::tempdir().expect("a scratch directory");
    let files = ["raft.proto", "forward.proto"].map(|name| root.join("hikyaku/node/v1").join(name));
    let descriptors = protox::compile(files, [root]).expect("the .proto files are valid");
    tonic_prost_build::configure()
        .bytes(".")
        .out_dir(out.path())
        .compile_fds(descriptors)
        .expect("code can be generated");

    let fresh = fs::read_to_string(out.path().join("hikyaku.node.v1.rs")).expect("generated file");
    let committed = root.join("src/node.rs");
    if std::env::var_os("HIKYAKU_REGENERATE").is_some() {
        fs::write(&committed, &fresh).expect("the source file can be written");
    }
    let present = fs::read_to_string(&committed).expect("src/node.rs is committed");
    assert!(
        present == fresh,
        "src/node.rs is stale; see the head of src/lib.rs"
    );
}
