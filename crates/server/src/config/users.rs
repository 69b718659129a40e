//! Users of accounts, as they are configured: access keys that may not do everything.
//!
//! A user is written `ACCESS_KEY_ID:NAME:POLICY_FILE`; in a file, as a table of `[[auth.users]]`. The
//! key is one of `auth.keys`; the file holds an IAM policy, JSON, without `Principal`. A key without a
//! user is its account's root and may do everything with the account's queues.

use super::value::Value;
use std::path::PathBuf;
use toml::Value as Toml;

/// A user, by the access key that is theirs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfiguredUser {
    /// The id of the key.
    pub access_key_id: String,
    /// The name, as in the ARN `arn:aws:iam::<account>:user/<name>`.
    pub name: String,
    /// The file of the policy.
    pub policy_file: PathBuf,
}

const EXPECTED: &str = "expected ACCESS_KEY_ID:NAME:POLICY_FILE, without commas in it";

const EXPECTED_TABLE: &str =
    "expected { access_key_id = \"ID\", name = \"NAME\", policy_file = \"PATH\" }";

impl Value for ConfiguredUser {
    fn parse(text: &str) -> Result<Self, String> {
        let mut parts = text.splitn(3, ':');
        match (parts.next(), parts.next(), parts.next()) {
            (Some(id), Some(name), Some(path)) if !id.is_empty() && !name.is_empty() => Ok(Self {
                access_key_id: id.to_owned(),
                name: name.to_owned(),
                policy_file: PathBuf::parse(path)?,
            }),
            _ => Err(EXPECTED.to_owned()),
        }
    }

    fn show(&self) -> String {
        let Self {
            access_key_id,
            name,
            policy_file,
        } = self;
        format!("{access_key_id}:{name}:{}", policy_file.display())
    }
}

impl Value for Vec<ConfiguredUser> {
    fn parse(text: &str) -> Result<Self, String> {
        let users = text.split(',').map(str::trim).filter(|it| !it.is_empty());
        users.map(ConfiguredUser::parse).collect()
    }

    fn show(&self) -> String {
        let users: Vec<String> = self.iter().map(ConfiguredUser::show).collect();
        users.join(",")
    }
}

/// Turns tables of users into the one text that all layers have.
pub(super) fn user_list(users: &[Toml]) -> Result<String, String> {
    let texts: Option<Vec<String>> = users.iter().map(user_text).collect();
    let texts = texts.ok_or_else(|| EXPECTED_TABLE.to_owned())?;
    Ok(texts.join(","))
}

fn user_text(user: &Toml) -> Option<String> {
    let fields = user.as_table()?;
    let text = |name: &str| fields.get(name).and_then(Toml::as_str);
    let (id, name) = (text("access_key_id")?, text("name")?);
    let text = format!("{id}:{name}:{}", text("policy_file")?);
    let whole = fields.len() == 3 && !id.contains(':') && !name.contains(':');
    (whole && !text.contains(',')).then_some(text)
}
