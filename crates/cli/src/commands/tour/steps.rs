//! The steps of the tour. Each one checks the output of its commands.

use std::{future::Future, pin::Pin};

use toolcrib_sources::OwnRun;

use super::{
    record::Edit,
    stage::{
        CommandCaller::{Caller, Operator},
        Heading, Stage, StepFailure, StepResult, check, succeeded,
    },
};

pub(super) struct Step {
    pub(super) heading: Heading,
    pub(super) show: StepFn,
}

type StepFn =
    for<'a, 'b> fn(&'a mut Stage<'b>) -> Pin<Box<dyn Future<Output = StepResult> + Send + 'a>>;

/// The steps, in their order.
pub(super) const STEPS: [Step; 5] = [
    Step {
        heading: Heading {
            name: "list",
            title: "each caller has its own list of tools",
            sentence: "Two callers list the tools of the same server. Each one sees only the \
                       tools that it may call.",
        },
        show: |stage| Box::pin(list(stage)),
    },
    Step {
        heading: Heading {
            name: "explain",
            title: "a denied call is explained",
            sentence: "`reader` calls a tool that writes. Tools require scopes (rights), and keys \
                       have them. `explain` names the missing scope, and the list of keys \
                       shows who has it.",
        },
        show: |stage| Box::pin(explain(stage)),
    },
    Step {
        heading: Heading {
            name: "approve",
            title: "a risky call waits for another person",
            sentence: "A rule of the demo says that each call of demo__wipe needs an approval. \
                       The call does not run. Another person approves it, and then the same call \
                       runs once. (This tool only pretends to delete.)",
        },
        show: |stage| Box::pin(approve(stage)),
    },
    Step {
        heading: Heading {
            name: "quarantine",
            title: "a changed tool is quarantined",
            sentence: "An MCP server changes a tool that you have reviewed. That may be an \
                       update, or an attack on the model that reads its description. No caller \
                       can use the tool until an administrator approves the change.",
        },
        show: |stage| Box::pin(quarantine(stage)),
    },
    Step {
        heading: Heading {
            name: "prove",
            title: "the record shows that it is unchanged",
            sentence: "Every call of this tour is in the record, a chain of hashes with signed \
                       checkpoints. We change one event in a copy, so that `reader` is the caller \
                       of demo__wipe, and verify the copy.",
        },
        show: |stage| Box::pin(prove(stage)),
    },
];

async fn list(stage: &mut Stage<'_>) -> StepResult {
    let admin = stage.run(Caller("admin"), &["tools", "list"]).await?;
    let reader = stage.run(Caller("reader"), &["tools", "list"]).await?;
    let (admin, reader) = (names(&admin)?, names(&reader)?);
    let hidden: Vec<&str> =
        admin.iter().filter(|name| !reader.contains(name)).map(String::as_str).collect();
    let known = reader.iter().all(|name| admin.contains(name));
    check(known && !reader.is_empty(), "the list of `reader` is no part of the list of `admin`")?;
    check(hidden.contains(&"demo__wipe"), "`reader` sees demo__wipe")?;
    Ok(format!(
        "`admin` sees {} tools, `reader` {}. Hidden from `reader`: {}.",
        admin.len(),
        reader.len(),
        hidden.join(", "),
    ))
}

/// The first column of a printed table.
fn names(run: &OwnRun) -> Result<Vec<String>, StepFailure> {
    succeeded(run, "`tools list`")?;
    let names = run.stdout.lines().skip(1).filter_map(|line| line.split_whitespace().next());
    Ok(names.map(str::to_owned).collect())
}

async fn explain(stage: &mut Stage<'_>) -> StepResult {
    let call = stage.run(Caller("reader"), &["call", "demo__fail"]).await?;
    let is_denied = call.code == 1 && call.stderr.contains("forbidden");
    check(is_denied, "the call of `reader` was not denied for its scopes")?;
    let explained = stage.run(Caller("reader"), &["explain", "--tool", "demo__fail"]).await?;
    let missing = explained.stdout.lines().find_map(|line| {
        let (_, missing) = line.trim().strip_prefix("stop")?.split_once("missing: `")?;
        Some(missing.split('`').next().unwrap_or_default().to_owned())
    });
    check(explained.code == 1, "`explain` says that the call would run")?;
    let missing =
        missing.ok_or_else(|| StepFailure::Problem("`explain` names no scope".to_owned()))?;
    check(missing == "demo:write", format!("`explain` names `{missing}`"))?;
    let keys = stage.run(Caller("admin"), &["keys", "list"]).await?;
    succeeded(&keys, "`keys list`")?;
    let holder = keys.stdout.lines().find(|line| {
        line.split_whitespace().any(|word| ["*", "demo:*", missing.as_str()].contains(&word))
    });
    let is_admin = holder.is_some_and(|line| line.starts_with("demo: admin"));
    check(is_admin, "the list of keys has no key of `admin` with the scope")?;
    Ok(format!(
        "`reader` lacks the scope `{missing}`. The key of `admin` has it: its scope `*` covers every tool."
    ))
}

/// The call that needs an approval.
const WIPE: [&str; 3] = ["call", "demo__wipe", "target=reports"];

async fn approve(stage: &mut Stage<'_>) -> StepResult {
    let call = stage.run(Caller("admin"), &WIPE).await?;
    check(call.code == 1 && call.stderr.contains("approval required"), "the call did not wait")?;
    let pending = ["approvals", "list", "--state", "pending"];
    let pending = stage.run(Caller("approver"), &pending).await?;
    succeeded(&pending, "`approvals list`")?;
    let of_wipe = pending.stdout.lines().find(|line| line.contains("mcp:demo.wipe"));
    let id = of_wipe.and_then(|line| line.split_whitespace().last()).map(str::to_owned);
    let id = id.ok_or_else(|| StepFailure::Problem("no approval is pending".to_owned()))?;
    let grant = ["approvals", "grant", &id, "--comment", "they are archived"];
    let granted = stage.run(Caller("approver"), &grant).await?;
    succeeded(&granted, "`approvals grant`")?;
    let ran = stage.run(Caller("admin"), &WIPE).await?;
    succeeded(&ran, "the approved call")?;
    check(ran.stdout.contains("nothing was deleted"), "the approved call has another result")?;
    Ok("The approval was for this caller, this tool and these arguments, and for one run. The next call \
        needs a new one. You cannot approve your own request."
        .to_owned())
}

async fn quarantine(stage: &mut Stage<'_>) -> StepResult {
    let changed = stage.run(Operator, &["demo", "change"]).await?;
    succeeded(&changed, "`demo change`")?;
    let is_known = |run: &OwnRun| run.stdout.contains("quarantined");
    let diff = ["tools", "diff", "demo__echo"];
    let diff = stage.run_until(Caller("admin"), &diff, is_known).await?;
    check(is_known(&diff), "the changed tool is not quarantined")?;
    check(diff.stdout.contains("in capitals"), "`tools diff` does not show the change")?;
    let refused = stage.run(Caller("admin"), &["call", "demo__echo", "text=hello"]).await?;
    check(refused.code == 1, "a call of the quarantined tool ran")?;
    let approved = stage.run(Caller("admin"), &["tools", "approve", "demo__echo"]).await?;
    succeeded(&approved, "`tools approve`")?;
    let call = ["call", "demo__echo", "text=hello", "loud=true"];
    let ran = stage.run(Caller("admin"), &call).await?;
    succeeded(&ran, "the call of the approved tool")?;
    check(ran.stdout.trim() == "HELLO", "the approved tool has another result")?;
    Ok("A call of the quarantined tool got the answer for an unknown tool. Since the approval, the tool \
        works in its new form."
        .to_owned())
}

async fn prove(stage: &mut Stage<'_>) -> StepResult {
    // The demo signs a checkpoint every two seconds; the whole tour must be signed.
    let is_signed = |run: &OwnRun| run.code == 0 && !run.stdout.contains("will be signed");
    let verified = stage.run_until(Operator, &["audit", "verify"], is_signed).await?;
    succeeded(&verified, "`audit verify`")?;
    check(verified.stdout.contains("nothing was changed"), "`audit verify` has another result")?;
    let key = stage.run_into(&["audit", "key"], "record.pub").await?;
    check(!key.trim().is_empty(), "there is no public key")?;
    let export = ["audit", "export", "--checkpoints"];
    let record = stage.run_into(&export, "record.jsonl").await?;
    let edit = Edit::of_caller(&record, "mcp:demo.wipe")
        .ok_or_else(|| StepFailure::Problem("the record has no call of demo__wipe".to_owned()))?;
    stage.edit(&edit, &record, "record.jsonl", "altered.jsonl")?;
    let altered = ["audit", "verify", "--file", "altered.jsonl", "--public-key", "record.pub"];
    let found = stage.run(Operator, &altered).await?;
    let place = format!("at position {}:", edit.position);
    check(found.code == 1, "the check of the altered copy found no change")?;
    check(found.stdout.contains(&place), "the check does not name the altered event")?;
    Ok(format!(
        "The record is unchanged. In the altered copy, the check found event {} of the tenant `demo`.",
        edit.position
    ))
}
