//! Restarts and reports of failed tasks.

use std::sync::atomic::{AtomicU64, Ordering};

use super::*;

fn of(tasks: &Tasks, kind: &str) -> Option<TaskReport> {
    tasks.reports().into_iter().find(|report| report.name.kind == kind)
}

async fn until(what: &str, done: impl Fn() -> bool) {
    for _ in 0..100_000 {
        if done() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("never happened: {what}");
}

/// Starts a task whose first runs end as `end` decides, and whose later ones wait for `stop`.
fn failing(
    tasks: &Tasks,
    policy: Policy,
    stop: &CancellationToken,
    failures: u64,
    end: fn(),
) -> (Task, Arc<AtomicU64>) {
    let runs = Arc::new(AtomicU64::new(0));
    let (counted, waits) = (Arc::clone(&runs), stop.clone());
    let task = tasks.spawn("work", policy, stop.clone(), move || {
        let (run, stop) = (counted.fetch_add(1, Ordering::SeqCst), waits.clone());
        async move {
            if run < failures {
                return end();
            }
            stop.cancelled().await;
        }
    });
    (task, runs)
}

// I-90
#[tokio::test(start_paused = true)]
async fn a_task_that_panics_or_ends_early_is_started_again_and_counted() {
    for end in [(|| panic!("canary")) as fn(), || ()] {
        let (tasks, stop) = (Tasks::new(), CancellationToken::new());
        let (task, runs) = failing(&tasks, Policy::Forever, &stop, 3, end);
        until("it fails", || of(&tasks, "work").unwrap().failures == 1).await;
        assert!(of(&tasks, "work").unwrap().state > TaskState::Running);
        until("it runs again", || runs.load(Ordering::SeqCst) == 4).await;
        let report = of(&tasks, "work").unwrap();
        assert_eq!((report.failures, report.running), (3, 1));
        assert_eq!(report.state, TaskState::Recovering);
        tokio::time::sleep(STABLE).await;
        assert_eq!(of(&tasks, "work").unwrap().state, TaskState::Running);
        stop.cancel();
        task.ended().await;
        task.ended().await;
        let report = of(&tasks, "work").unwrap();
        assert_eq!((report.failures, report.running), (3, 0), "a counter does not go back");
    }
}

#[tokio::test(start_paused = true)]
async fn a_task_that_was_stopped_is_not_started_again() {
    let (tasks, stop) = (Tasks::new(), CancellationToken::new());
    let (task, runs) = failing(&tasks, Policy::Forever, &stop, 0, || ());
    tokio::task::yield_now().await;
    stop.cancel();
    task.ended().await;
    assert_eq!(runs.load(Ordering::SeqCst), 1);
    assert_eq!(tasks.reports(), []);
    // A task that always fails is stopped in its pause too.
    let stop = CancellationToken::new();
    let (task, _) = failing(&tasks, Policy::Forever, &stop, u64::MAX, || panic!("again"));
    until("it fails", || of(&tasks, "work").is_some_and(|report| report.failures > 2)).await;
    stop.cancel();
    task.ended().await;
}

#[tokio::test(start_paused = true)]
async fn work_that_is_done_is_not_done_again_unless_it_panicked() {
    let (tasks, stop) = (Tasks::new(), CancellationToken::new());
    let (task, runs) = failing(&tasks, Policy::UntilDone, &stop, u64::MAX, || ());
    task.ended().await;
    assert_eq!((runs.load(Ordering::SeqCst), tasks.reports()), (1, vec![]));
    let (_task, runs) = failing(&tasks, Policy::UntilDone, &stop, 2, || panic!("again"));
    until("it runs again", || runs.load(Ordering::SeqCst) == 3).await;
    let lost = tasks.once("lost", async { panic!("once") });
    lost.ended().await;
    assert_eq!(of(&tasks, "lost").unwrap().failures, 1);
    stop.cancel();
}

// I-90
#[tokio::test(start_paused = true)]
async fn an_essential_task_that_ends_is_fatal() {
    let (tasks, stop) = (Tasks::new(), CancellationToken::new());
    let (task, runs) = failing(&tasks, Policy::Essential, &stop, 0, || ());
    let fatal = tokio::time::timeout(Duration::from_secs(3600), tasks.fatal()).await;
    assert!(fatal.is_err(), "it runs");
    let (_lost, _) = failing(&tasks, Policy::Essential, &stop, 1, || ());
    assert_eq!(tasks.fatal().await, TaskName::from("work"));
    assert_eq!(of(&tasks, "work").unwrap().state, TaskState::Ended);
    stop.cancel();
    task.ended().await;
    assert_eq!(runs.load(Ordering::SeqCst), 1);
}

#[test]
fn failures_are_found_by_instance() {
    let tasks = Tasks::new();
    let place = BoardEntry::enter(&tasks.board, TaskName::of("source", "a"));
    place.failed("panicked");
    assert_eq!((tasks.failures_of("a"), tasks.failures_of("b")), (1, 0));
}
