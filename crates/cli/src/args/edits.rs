//! The arguments of commands that change the configuration file.

use clap::{Args, Subcommand, ValueEnum};
use toolcrib_core::id::{SourceId, TenantId};

use super::output::Output;

/// The options of every change.
#[derive(Debug, Clone, Args)]
pub(crate) struct EditArgs {
    /// Print the changed lines and what each role would see, without writing
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// Write without a confirmation
    #[arg(short, long, conflicts_with = "dry_run")]
    pub(crate) yes: bool,

    /// Start no source: what each role would see stays unknown
    #[arg(long)]
    pub(crate) no_connect: bool,

    /// Write also if the store cannot be opened to record the change
    #[arg(long, conflicts_with = "dry_run")]
    pub(crate) unrecorded: bool,
}

/// Settings by their keys in the file.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct SettingArgs {
    /// Set a key of the configuration file: a TOML value, or text; may be repeated
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,

    /// Remove a key of the configuration file; may be repeated
    #[arg(long = "unset", value_name = "KEY")]
    pub(crate) unset: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct SourceAddArgs {
    /// Add the source with this id; it becomes part of every tool name
    pub(crate) id: SourceId,

    /// Start this program as an MCP server
    #[arg(long, value_name = "PROGRAM", group = "upstream")]
    pub(crate) command: Option<String>,

    /// Pass these arguments to the program; the other options come before
    #[arg(long, value_name = "ARG", num_args = 1.., allow_hyphen_values = true, requires = "command")]
    pub(crate) args: Vec<String>,

    /// Connect to the MCP server at this address
    #[arg(long = "mcp", value_name = "URL", group = "upstream")]
    pub(crate) mcp: Option<String>,

    /// Offer the operations of this OpenAPI document: a file, a folder or an address
    #[arg(long, value_name = "FILE|URL", group = "upstream")]
    pub(crate) openapi: Option<String>,

    /// Give the program this variable: NAME=VALUE, or NAME for the variable of the server; may be
    /// repeated
    #[arg(long, value_name = "NAME[=VALUE]")]
    pub(crate) env: Vec<String>,

    /// Send this header with the value of a variable of the server; may be repeated
    #[arg(long = "header", value_name = "HEADER=VARIABLE")]
    pub(crate) headers: Vec<String>,

    /// Let the source exist for this tenant only; may be repeated [default: all tenants]
    #[arg(long = "tenant", value_name = "TENANT")]
    pub(crate) tenants: Vec<TenantId>,

    #[command(flatten)]
    pub(crate) settings: SettingArgs,

    #[command(flatten)]
    pub(crate) edit: EditArgs,
}

#[derive(Debug, Args)]
pub(crate) struct SetArgs {
    /// Change the one with this name
    pub(crate) name: String,

    #[command(flatten)]
    pub(crate) settings: SettingArgs,

    #[command(flatten)]
    pub(crate) edit: EditArgs,
}

#[derive(Debug, Args)]
pub(crate) struct RemoveArgs {
    /// Remove the one with this name
    pub(crate) name: String,

    #[command(flatten)]
    pub(crate) edit: EditArgs,
}

#[derive(Debug, Subcommand)]
pub(crate) enum RolesCommand {
    /// List the roles with their scopes and the number of tools that they see
    #[command(after_help = "\
Examples:
  toolcrib roles list
  toolcrib roles list --tenant acme
  toolcrib --url http://127.0.0.1:8808 --key-file key.txt roles list

Without --url the command starts the sources of the configuration first. With --url the key needs the
scope `roles:read`, and the tools are those of its tenant.")]
    List(RoleListArgs),

    /// Show the tools that a role sees
    #[command(after_help = "\
Examples:
  toolcrib roles show support
  toolcrib --url http://127.0.0.1:8808 --key-file key.txt roles show support --json")]
    Show {
        /// Show the role with this name
        name: String,

        #[command(flatten)]
        of: RoleListArgs,
    },

    /// Add a role to the configuration file
    #[command(after_help = "\
Examples:
  toolcrib roles add support --tools 'files__*' --dry-run
  toolcrib roles add reader --tools 'files__{read,list}*' --own-scope
  toolcrib roles add reader --scope files:read --scope 'docs:*' --yes
  toolcrib roles add ci --scope 'tools:*' --set quota=1000/d

A role is a list of scopes. --tools takes the scopes that the matching tools require. If other tools
require the same, the command lists them, and --yes is refused. --own-scope then adds rules that give
the matching tools a separate scope. Roles that reach them get it too; keys that have the scope
itself, without a role, lose these tools.

The file keeps its comments and layout, and is replaced as a whole. The text before is kept as
toolcrib.toml.bak. A running server reads the file by itself.")]
    Add(RoleAddArgs),

    /// Change a role of the configuration file
    #[command(after_help = "\
Examples:
  toolcrib roles set support --scope docs:read
  toolcrib roles set support --tools 'docs__*' --dry-run
  toolcrib roles set support --remove-scope files:write
  toolcrib roles set support --unset quota --yes")]
    Set(RoleSetArgs),

    /// Remove a role from the configuration file; keys keep its name and lose its scopes
    #[command(after_help = "\
Examples:
  toolcrib roles remove support --dry-run")]
    Remove(RemoveArgs),
}

#[derive(Debug, Args)]
pub(crate) struct RoleListArgs {
    /// Show the tools of this tenant; with --url it is the caller's
    #[arg(long, default_value = "default")]
    pub(crate) tenant: TenantId,

    #[command(flatten)]
    pub(crate) output: Output,
}

#[derive(Debug, Args)]
#[group(id = "grants", required = true, multiple = true)]
pub(crate) struct RoleAddArgs {
    /// Add the role with this name
    pub(crate) name: String,

    /// Give the role this scope; may be repeated
    #[arg(long = "scope", value_name = "SCOPE", group = "grants")]
    pub(crate) scopes: Vec<String>,

    /// Give the role the scopes of the tools that match this glob over wire names and tool ids; may be
    /// repeated
    #[arg(long = "tools", value_name = "GLOB", group = "grants", conflicts_with = "no_connect")]
    pub(crate) tools: Vec<String>,

    /// Give the tools of --tools a separate scope if other tools require the same
    #[arg(long, requires = "tools")]
    pub(crate) own_scope: bool,

    #[command(flatten)]
    pub(crate) settings: SettingArgs,

    #[command(flatten)]
    pub(crate) edit: EditArgs,
}

#[derive(Debug, Args)]
pub(crate) struct RoleSetArgs {
    /// Change the role with this name
    pub(crate) name: String,

    /// Add this scope; may be repeated
    #[arg(long = "scope", value_name = "SCOPE")]
    pub(crate) scopes: Vec<String>,

    /// Add the scopes of the tools that match this glob; may be repeated
    #[arg(long = "tools", value_name = "GLOB", conflicts_with = "no_connect")]
    pub(crate) tools: Vec<String>,

    /// Give the tools of --tools a separate scope if other tools require the same
    #[arg(long, requires = "tools")]
    pub(crate) own_scope: bool,

    /// Remove this scope; may be repeated
    #[arg(long, value_name = "SCOPE")]
    pub(crate) remove_scope: Vec<String>,

    #[command(flatten)]
    pub(crate) settings: SettingArgs,

    #[command(flatten)]
    pub(crate) edit: EditArgs,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ToolsetsCommand {
    /// Add a toolset to the configuration file
    #[command(after_help = "\
Examples:
  toolcrib toolsets add work --allow 'files__*' --allow 'mail__read_*' --title 'Daily work'
  toolcrib toolsets add work --allow 'files__*' --deny '*__delete_*' --dry-run

A toolset is a named part of the catalog. It gives no rights: a caller sees the tools of it that its
scopes cover.")]
    Add(ToolsetAddArgs),

    /// Change a toolset of the configuration file
    #[command(after_help = "\
Examples:
  toolcrib toolsets set work --set 'allow=[\"files__*\", \"mail__*\"]'
  toolcrib toolsets set work --unset title --yes")]
    Set(SetArgs),

    /// Remove a toolset from the configuration file
    #[command(after_help = "\
Examples:
  toolcrib toolsets remove work --dry-run")]
    Remove(RemoveArgs),
}

#[derive(Debug, Args)]
pub(crate) struct ToolsetAddArgs {
    /// Add the toolset with this name
    pub(crate) name: String,

    /// Include the tools that match this glob over wire names and tool ids; may be repeated
    #[arg(long, value_name = "GLOB", required = true)]
    pub(crate) allow: Vec<String>,

    /// Exclude the tools that match this glob; may be repeated
    #[arg(long, value_name = "GLOB")]
    pub(crate) deny: Vec<String>,

    /// Set the title for people
    #[arg(long)]
    pub(crate) title: Option<String>,

    #[command(flatten)]
    pub(crate) settings: SettingArgs,

    #[command(flatten)]
    pub(crate) edit: EditArgs,
}

#[derive(Debug, Subcommand)]
pub(crate) enum RulesCommand {
    /// Propose rules from the names, hints and descriptions of tools, without writing any
    #[command(after_help = "\
Examples:
  toolcrib rules propose
  toolcrib rules propose --source files --json

A tool that says it deletes something and has no rule gets a proposal for approval; one that says it
only reads, for the tier `read`. The words are the upstream's, so read them before you add a rule. Each
proposal names exactly the tools of today.")]
    Propose {
        /// Propose only rules of this source
        #[arg(long, value_name = "SOURCE")]
        source: Option<SourceId>,
    },

    /// Add a rule to a source of the configuration file
    #[command(after_help = "\
Examples:
  toolcrib rules add files 'delete_*' --approval always
  toolcrib rules add files 'read_*' --tier read --scope files:read --dry-run
  toolcrib rules add files 'secret_*' --set hide=true --yes

The glob matches the source's own names of its tools. Later rules override earlier ones, key by key.")]
    Add(RuleArgs),

    /// Change a rule of the configuration file
    #[command(after_help = "\
Examples:
  toolcrib rules set files 'delete_*' --set approval_quorum=2
  toolcrib rules set files 'delete_*' --unset approval --dry-run")]
    Set(RuleArgs),

    /// Remove a rule from the configuration file
    #[command(after_help = "\
Examples:
  toolcrib rules remove files 'delete_*' --dry-run")]
    Remove {
        /// Remove the rule of this source
        source: SourceId,

        /// Remove the rule with this glob
        glob: String,

        #[command(flatten)]
        edit: EditArgs,
    },
}

#[derive(Debug, Args)]
pub(crate) struct RuleArgs {
    /// Apply the rule to tools of this source
    pub(crate) source: SourceId,

    /// Apply the rule to tools whose names match this glob
    pub(crate) glob: String,

    /// Require approval
    #[arg(long, value_enum)]
    pub(crate) approval: Option<ApprovalArg>,

    /// Set the tier
    #[arg(long, value_enum)]
    pub(crate) tier: Option<TierArg>,

    /// Require this scope in place of the source's; may be repeated
    #[arg(long = "scope", value_name = "SCOPE")]
    pub(crate) scopes: Vec<String>,

    #[command(flatten)]
    pub(crate) settings: SettingArgs,

    #[command(flatten)]
    pub(crate) edit: EditArgs,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum ApprovalArg {
    /// Calls run at once
    Never,
    /// Every call needs the consent of a person
    Always,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum TierArg {
    /// Computes something
    Pure,
    /// Reads something
    Read,
    /// Changes something
    Write,
}
