//! Access keys in the configuration: read from everywhere, shown nowhere.

#![expect(
    clippy::unwrap_used,
    reason = "these are tests; clippy sees only the functions marked so"
)]

use hikyaku_server::config::{ConfigError, KEYS, Loaded, Secret};
use hikyaku_server::{ServeError, serve};
use std::path::Path;

/// The planted secret: no text may hold it.
const SECRET: &str = "cGxhbnRlZC1zZWNyZXQtb2YtdGhlLXRlc3Rz";

fn load(file: &str, flags: &[(&str, &str)]) -> Result<Loaded, ConfigError> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("hikyaku.toml");
    std::fs::write(&path, file).unwrap();
    let flags = flags
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    Loaded::load(None, Some(&path), [], flags)
}

/// Everything that is ever shown of a configuration.
fn shown(loaded: &Loaded) -> String {
    let lines = loaded.lines();
    let lines: Vec<String> = lines
        .map(|(key, value, origin)| format!("{} = {value:?} # {origin}", key.name))
        .collect();
    format!("{loaded:?} {loaded:#?} {}", lines.join("\n"))
}

#[test]
fn keys_are_read_from_tables_and_texts_alike() {
    let table = format!(
        "[[auth.keys]]\ntenant = \"000000000000\"\naccess_key_id = \"AKIAONE\"\nsecret = \"{SECRET}\"\n\
         [[auth.keys]]\ntenant = \"123456789012\"\naccess_key_id = \"AKIATWO\"\nsecret_file = \"/run/two\""
    );
    let text = format!("000000000000:AKIAONE:{SECRET}, 123456789012:AKIATWO:@/run/two");
    for loaded in [load(&table, &[]), load("", &[("auth.keys", &text)])] {
        let loaded = loaded.unwrap();
        let keys = &loaded.config.auth.keys;
        assert_eq!(keys[0].tenant.to_string(), "000000000000");
        assert!(matches!(&keys[0].secret, Secret::Given(secret) if **secret == SECRET));
        assert_eq!(keys[1].access_key_id, "AKIATWO");
        assert!(matches!(&keys[1].secret, Secret::File(path) if path == Path::new("/run/two")));
        loaded.check_servable().unwrap();
        let shown = shown(&loaded);
        assert!(!shown.contains(SECRET), "{shown}");
        assert!(
            shown.contains("\"000000000000:AKIAONE:(hidden),123456789012:AKIATWO:@/run/two\""),
            "{shown}"
        );
    }
}

#[test]
fn users_are_read_from_tables_and_texts_alike() {
    let key = format!("000000000000:AKIAONE:{SECRET}");
    let table = "[[auth.users]]\naccess_key_id = \"AKIAONE\"\nname = \"ann\"\npolicy_file = \"/p\"";
    let text = ("auth.users", "AKIAONE:ann:/p");
    let key = ("auth.keys", &*key);
    for loaded in [load(table, &[key]), load("", &[key, text])] {
        let loaded = loaded.unwrap();
        let [user] = &loaded.config.auth.users[..] else {
            panic!("{loaded:?}");
        };
        assert_eq!((&*user.access_key_id, &*user.name), ("AKIAONE", "ann"));
        assert_eq!(user.policy_file, Path::new("/p"));
        assert!(shown(&loaded).contains("\"AKIAONE:ann:/p\""));
    }
    for (users, reason) in [
        ("AKIAONE:ann", "expected ACCESS_KEY_ID:NAME:POLICY_FILE"),
        ("AKIATWO:ann:/p", "must name access keys of auth.keys"),
        (
            "AKIAONE:ann:/p,AKIAONE:bob:/p",
            "must name each access key once",
        ),
    ] {
        let refusal = load("", &[key, ("auth.users", users)]).unwrap_err();
        assert!(refusal.to_string().contains(reason), "{refusal}");
    }
    let misspelt = table.replace("policy_file", "policy");
    let refusal = load(&misspelt, &[key]).unwrap_err().to_string();
    assert!(refusal.contains("policy_file"), "{refusal}");
}

#[test]
fn no_refusal_shows_a_secret() {
    let key = format!("000000000000:AKIAONE:{SECRET}");
    let texts = [
        format!("00:AKIAONE:{SECRET}"),
        format!("000000000000:A/B:{SECRET}"),
        format!("000000000000:AKIAONE{SECRET}"),
        format!("{key} {SECRET}"),
        format!("{key},{key}"),
        SECRET.to_owned(),
    ];
    for text in &texts {
        let refusal = load("", &[("auth.keys", text)]).unwrap_err();
        let shown = format!("{refusal} {refusal:?}");
        assert!(!shown.contains(SECRET), "{shown}");
        assert!(shown.contains("auth.keys"), "{shown}");
    }
    let all = "tenant = \"000000000000\"\naccess_key_id = \"A\"";
    let files = [
        format!("[[auth.keys]]\n{all}\nsecrett = \"{SECRET}\""),
        format!("[[auth.keys]]\n{all}\nsecret = \"{SECRET}\"\nsecret_file = \"x\""),
        format!("[[auth.keys]]\n{all}\nsecret = \"{SECRET},\""),
        format!("[[auth.keys]]\nsecret = \"{SECRET}\""),
        format!("[[auth.key]]\n{all}\nsecret = \"{SECRET}\""),
        format!("[auth.keys]\nsecret = \"{SECRET}\""),
        format!("[auth]\nkeys = [\"{SECRET}\"]"),
        format!("[[auth.keys]]\n{all}\nsecret = \"{SECRET}"),
        format!("[[auth.keys]]\n{all}\nsecret = {SECRET}\""),
    ];
    for file in &files {
        let refusal = load(file, &[]).unwrap_err();
        let shown = format!("{refusal} {refusal:?}");
        assert!(!shown.contains(SECRET), "{file} gave {shown}");
    }
}

#[test]
fn a_short_secret_is_no_secret() {
    let short = format!("000000000000:AKIAONE:{}", &SECRET[..31]);
    let refusal = load("", &[("auth.keys", &short)]).unwrap_err();
    assert!(
        refusal.to_string().contains("at least 32 bytes"),
        "{refusal}"
    );
    let read_back = "000000000000:AKIAONE:(hidden)";
    assert!(load("", &[("auth.keys", read_back)]).is_err());
}

#[test]
fn nobody_serves_without_keys_unless_everyone_may_ask() {
    let loaded = load("", &[]).unwrap();
    let refusal = serve(loaded).unwrap_err();
    assert!(matches!(refusal, ServeError::Configuration(_)));
    assert_eq!(
        refusal.to_string(),
        "auth.keys = not set (default) must name an access key, unless operators create \
         some, with auth.sealing_key_file, or everyone may ask for everything by auth.accept_any_credentials = false (default)"
    );
    let open = load("", &[("auth.accept_any_credentials", "true")]).unwrap();
    open.check_servable().unwrap();
    let sealed = load("", &[("auth.sealing_key_file", "/run/sealing")]).unwrap();
    sealed.check_servable().unwrap();
    let key = format!("000000000000:AKIAONE:{SECRET}");
    let both = [
        ("auth.accept_any_credentials", "true"),
        ("auth.keys", &*key),
    ];
    let refusal = load("", &both).unwrap_err().to_string();
    assert!(
        refusal.starts_with(
            "auth.keys = 000000000000:AKIAONE:(hidden) (from --auth-keys) means nothing beside"
        ),
        "{refusal}"
    );
}

#[test]
fn one_id_names_one_key() {
    let keys = format!("000000000000:AKIAONE:{SECRET},123456789012:AKIAONE:{SECRET}");
    let refusal = load("", &[("auth.keys", &keys)]).unwrap_err().to_string();
    assert!(
        refusal.contains("must name each access key once"),
        "{refusal}"
    );
    assert!(
        KEYS.iter()
            .any(|key| key.variable() == "HIKYAKU_AUTH_ACCEPT_ANY_CREDENTIALS")
    );
}
