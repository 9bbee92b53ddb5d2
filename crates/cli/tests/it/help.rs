//! Help, versions and exit codes.

use std::process::Stdio;

use crate::support::{dir, finish, run, toolcrib};

const COMMANDS: [&[&str]; 56] = [
    &["try"],
    &["demo", "keys"],
    &["demo", "change"],
    &["serve"],
    &["mcp"],
    &["tools", "list"],
    &["tools", "show"],
    &["call"],
    &["sources", "list"],
    &["sources", "check"],
    &["sources", "add"],
    &["sources", "set"],
    &["sources", "remove"],
    &["roles", "show"],
    &["roles", "add"],
    &["roles", "set"],
    &["toolsets", "add"],
    &["rules", "propose"],
    &["rules", "add"],
    &["rules"],
    &["keys", "create"],
    &["keys", "list"],
    &["keys", "revoke"],
    &["packs", "add"],
    &["packs", "list"],
    &["packs", "remove"],
    &["packs", "verify"],
    &["packs"],
    &["explain"],
    &["connections", "list"],
    &["connections", "connect"],
    &["connections", "disconnect"],
    &["clients", "list"],
    &["clients", "end"],
    &["approvals"],
    &["approvals", "list"],
    &["approvals", "show"],
    &["approvals", "grant"],
    &["approvals", "override"],
    &["approvals", "withdraw"],
    &["audit", "tail"],
    &["audit", "export"],
    &["audit", "verify"],
    &["audit", "key"],
    &["audit", "forwarders"],
    &["config", "check"],
    &["config", "schema"],
    &["import"],
    &["init"],
    &["hash"],
    &["health"],
    &["completions"],
    &["man"],
    &["tools"],
    &["keys"],
    &["audit"],
];

#[test]
fn the_help_lists_all_commands() {
    let help = run(dir().path(), &["-h"]).ok().stdout;
    insta::assert_snapshot!(help, @r#"
    Give your agents one catalog of tools, check every call, and record it

    Usage: toolcrib [OPTIONS] <COMMAND>

    Commands:
      serve        Serve the tools of a configuration, or a demo
      mcp          Serve MCP over stdin and stdout, for clients that start their servers
      try          Take a tour in five steps; it needs no configuration and no network
      demo         Print the keys of the demo, or change one of its tools
      tools        List, search, check and approve tools
      call         Call a tool and print its result
      explain      Explain why a principal can or cannot call a tool, or why its list is empty
      sources      List, check, add, change and remove sources
      roles        Show what roles see; add, change and remove roles
      toolsets     Add, change and remove toolsets
      rules        Propose, add, change and remove rules of sources
      top          Show the calls, sources and pending approvals of a running server
      keys         Create, list, rotate and revoke API keys
      credentials  Manage the credentials of sources: tokens, passwords, OAuth clients
      connections  List, connect and disconnect the accounts that your calls act with
      clients      List and end the clients that people signed in with
      packs        Install, list, check and remove packs of tools
      runs         List, show and cancel workflow runs
      approvals    List and answer approvals
      audit        Read, export and verify the record
      store        Copy, migrate or check the store
      config       Check a configuration file, or print its JSON Schema
      conformance  Check whether a host conforms to the protocols it serves
      health       Check whether a running server is ready, for probes and scripts
      init         Write a first toolcrib.toml from the clients that are installed
      import       Convert the servers of a desktop client or another gateway to a toolcrib.toml
      hash         Hash JSON as the record does: redacted, RFC 8785, SHA-256
      completions  Print a completion script for a shell
      man          Write a man page for each command
      help         Print this message or the help of the given subcommand(s)

    Options:
      -h, --help     Print help (see more with '--help')
      -V, --version  Print version

    Options of every command:
          --json                Print JSON instead of text
          --config <FILE>       Read this configuration file [default: ./toolcrib.toml if it exists]
                                [env: TOOLCRIB_CONFIG]
          --data-dir <DIR>      Keep state in this directory: the store is DIR/toolcrib.db unless the
                                file sets `[store] url` [default: the directory of an absolute `[store]
                                url`, or .toolcrib next to the configuration file] [env:
                                TOOLCRIB_DATA_DIR]
          --url <URL>           Use the running server at this address instead of the store [env:
                                TOOLCRIB_URL]
          --key <KEY>           Present this API key; prefer the variable or --key-file, because other
                                users of the machine can see arguments [env: TOOLCRIB_KEY]
          --key-file <FILE>     Read the API key from this file; takes precedence over --key
          --ca-file <FILE>      Trust the certificate authorities in this PEM file too, for an https
                                --url [env: TOOLCRIB_CA_FILE]
          --client-cert <FILE>  Present the client certificate in this PEM file, for a server that
                                requires one [env: TOOLCRIB_CLIENT_CERT]
          --client-key <FILE>   Read the private key of --client-cert from this PEM file, if it is not
                                in the same one [env: TOOLCRIB_CLIENT_KEY]
      -q, --quiet               Print fewer messages on stderr
      -v, --verbose...          Print more messages on stderr; repeat for even more

    Examples:
      toolcrib try                              take a tour in five steps
      toolcrib serve --demo                     try it without a configuration or a network
      toolcrib init                             write a toolcrib.toml from the clients you have
      toolcrib import claude_desktop_config.json -o toolcrib.toml
      toolcrib config check                     report the problems of ./toolcrib.toml
      toolcrib serve                            serve ./toolcrib.toml
      toolcrib keys create --name ci --principal ci --tenant default --scope 'files:*'
      toolcrib call files__read_file '{"path": "/srv/docs/a.md"}'
      toolcrib audit tail -f                    watch the events

    Exit codes: 0 success, 1 failure, 2 usage error. With --json a failure is an object on stdout:
    {"error": {"message": ..., "causes": [...], "hint": ...}}.
    "#);
}

#[test]
fn every_command_explains_itself() {
    for command in COMMANDS {
        let help = run(dir().path(), &[command, &["--help"]].concat()).ok();
        assert!(help.stdout.contains("Usage: toolcrib"), "{help:?}");
        assert!(help.stdout.contains("--json"), "{command:?} has no --json");
        assert_eq!(help.stderr, "");
    }
}

#[test]
fn hidden_commands_stay_hidden() {
    let help = run(dir().path(), &["--help"]).ok().stdout;
    assert!(!help.contains("demo-upstream") && !help.contains("\n  gen "), "{help}");
}

#[test]
fn without_a_command_there_is_help() {
    for args in
        [&[][..], &["--json"], &["-q"], &["--url", "http://127.0.0.1:1"], &["--json", "keys"]]
    {
        let ran = run(dir().path(), args);
        assert_eq!(ran.code, 2, "{args:?}: {ran:?}");
        assert!(
            ran.stderr.contains("Usage: toolcrib") && ran.stderr.contains("Commands:"),
            "{ran:?}"
        );
        assert!(!ran.stderr.contains("demo-upstream"), "{ran:?}");
        assert!(!ran.stderr.lines().any(|line| line.trim_start().starts_with("gen ")), "{ran:?}");
    }
    let keys = run(dir().path(), &["--json", "keys"]);
    assert!(keys.stderr.contains("Usage: toolcrib keys"), "{}", keys.stderr);
    assert_eq!(keys.json()["error"]["message"], "a command is missing");
}

#[test]
fn a_failure_can_be_json() {
    let dir = dir();
    for (args, code) in [
        (&["--config", "missing.toml", "serve"][..], 1),
        (&["keys", "list"], 1),
        (&["audit", "export"], 1),
        (&["store", "check"], 1),
        (&["config", "check"], 1),
        (&["call", "no_such_tool"], 1),
        (&["import", "missing.json"], 1),
        (&["--url", "http://127.0.0.1:1", "tools", "list"], 1),
        (&["--url", "http://127.0.0.1:1", "call", "x"], 1),
        (&["call", "x", "not json"], 2),
        (&["hash", "{"], 2),
        (&["nonsense"], 2),
        (&["keys", "revoke"], 2),
        (&["tools", "list", "--source", "nonsense"], 2),
    ] {
        // Log lines on stderr are not part of the message.
        let run =
            |args: &[&str]| finish(toolcrib(dir.path()).env("TOOLCRIB_LOG", "off").args(args));
        // The first run may create the store, and says so.
        run(args);
        let plain = run(args);
        let ran = run(&[&["--json"], args].concat());
        assert_eq!(ran.code, code, "{args:?}: {ran:?}");
        assert_eq!(ran.stderr, plain.stderr, "the words stay the same");
        let told = ran.json();
        let error = &told["error"];
        assert!(error["causes"].is_array(), "{told}");
        assert!(error["hint"].is_string() || error["hint"].is_null(), "{told}");
        let message = error["message"].as_str().unwrap();
        assert!(!message.is_empty() && ran.stderr.contains(message), "{ran:?}");
    }
    let told = run(dir.path(), &["--json", "--config", "missing.toml", "serve"]).json();
    insta::assert_snapshot!(told, @r#"{"error":{"message":"the configuration missing.toml cannot be read","causes":["No such file or directory (os error 2)"],"hint":"name another file with --config, or create one with `toolcrib import`"}}"#);
    // stdout of `mcp` carries protocol messages.
    let mcp = run(dir.path(), &["--json", "--config", "missing.toml", "mcp"]);
    assert_eq!((mcp.code, mcp.stdout.as_str()), (1, ""));
}

#[test]
fn a_wrong_request_is_2_and_a_failure_is_1() {
    let dir = dir();
    for args in [
        &["nonsense"][..],
        &["serve", "--no-such-flag"],
        &["keys", "create", "--name", "x"],
        &["keys", "create", "--name", "x", "--scope", "a:*b"],
        &["keys", "create", "--name", "x", "--scope", "a", "--expires", "soon"],
        &["keys", "create", "--name", "a\nb", "--scope", "a"],
        &["keys", "revoke"],
        &["tools", "list", "--source", "nonsense"],
        &["call", "x", "not json"],
        &["call", "x", "[1]"],
        &["call", "x", r#"{"a":1,"a":2}"#],
        &["hash", "{"],
        &["--url", "not an address", "tools", "list"],
        &["--url", "http://user:pw@127.0.0.1", "tools", "list"],
        &["--url", "http://127.0.0.1:1", "credentials", "list"],
        &["-q", "-v", "keys", "list"],
    ] {
        let ran = run(dir.path(), args);
        assert_eq!(ran.code, 2, "{args:?}: {ran:?}");
        assert!(ran.stderr.contains("error: "), "{ran:?}");
        assert_eq!(ran.stdout, "");
    }
    for args in [
        &["keys", "list"][..],
        &["audit", "tail"],
        &["config", "check"],
        &["--config", "missing.toml", "serve"],
        &["import", "missing.json"],
        &["call", "no_such_tool"],
        &["--key-file", "missing", "--url", "http://127.0.0.1:1", "tools", "list"],
        &["--url", "http://127.0.0.1:1", "tools", "list"],
    ] {
        let ran = run(dir.path(), args);
        assert_eq!(ran.code, 1, "{args:?}: {ran:?}");
        assert!(ran.stderr.contains("error: "), "{ran:?}");
        assert_eq!(ran.stdout, "");
    }
}

#[test]
fn an_error_says_why_and_what_to_do() {
    let ran = run(dir().path(), &["--config", "missing.toml", "serve"]);
    insta::assert_snapshot!(ran.stderr, @r#"
    error: the configuration missing.toml cannot be read
    caused by: No such file or directory (os error 2)
    hint: name another file with --config, or create one with `toolcrib import`
    "#);
    let ran = run(dir().path(), &["audit", "export"]);
    insta::assert_snapshot!(ran.stderr, @r#"
    error: there is no store at .toolcrib/toolcrib.db
    hint: name the configuration with --config or the directory with --data-dir; `toolcrib serve` creates a store
    "#);
    let ran = run(dir().path(), &["--url", "http://127.0.0.1:1", "tools", "list"]);
    assert!(
        ran.stderr
            .starts_with("error: the server at http://127.0.0.1:1/ does not answer\ncaused by: ")
    );
    assert!(ran.stderr.ends_with("hint: is `toolcrib serve` running there?\n"), "{}", ran.stderr);
}

#[test]
fn a_reader_that_has_seen_enough_is_no_failure() {
    let dir = dir();
    let mut child = toolcrib(dir.path())
        .args(["completions", "zsh"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let ended = child.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(0));
    assert_eq!(String::from_utf8(ended.stderr).unwrap(), "");
}
