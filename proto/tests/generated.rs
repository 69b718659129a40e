//! The committed code is what the `.proto` files say.

use std::fs;
use std::path::Path;

#[test]
fn committed_code_matches_the_proto_files() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let out = tempfile::tempdir().expect("a scratch directory");
    let files = [
        "node/v1/raft.proto",
        "node/v1/forward.proto",
        "founding/v1/founding.proto",
        "admin/v1/admin.proto",
    ];
    let files = files.map(|name| root.join("hikyaku").join(name));
    let descriptors = protox::compile(files, [root]).expect("the .proto files are valid");
    tonic_prost_build::configure()
        .bytes(".")
        .out_dir(out.path())
        .compile_fds(descriptors)
        .expect("code can be generated");

    for module in ["node", "founding", "admin"] {
        let generated = out.path().join(format!("hikyaku.{module}.v1.rs"));
        let fresh = fs::read_to_string(generated).expect("generated file");
        let committed = root.join(format!("src/{module}.rs"));
        if std::env::var_os("HIKYAKU_REGENERATE").is_some() {
            fs::write(&committed, &fresh).expect("the source file can be written");
        }
        let present = fs::read_to_string(&committed).expect("the generated code is committed");
        assert!(
            present == fresh,
            "src/{module}.rs is stale; see the head of src/lib.rs"
        );
    }
}
