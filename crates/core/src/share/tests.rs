use std::collections::HashMap;

use proptest::prelude::*;

use super::*;

fn owner(tenant: usize, principal: usize) -> PrincipalKey {
    PrincipalKey {
        tenant: format!("t{tenant}").parse().unwrap(),
        principal: format!("p{principal}").parse().unwrap(),
    }
}

/// How much `owner` gets, one part after the other.
fn fill(shares: &mut Shares, owner: &PrincipalKey) -> usize {
    (0..1_000).take_while(|_| shares.take(owner, 1)).count()
}

// I-105
#[test]
fn a_caller_alone_has_everything_and_leaves_an_eighth_once_others_were_seen() {
    let mut shares = Shares::new(64);
    let (one, other) = (owner(0, 0), owner(1, 0));
    assert_eq!(fill(&mut shares, &one), 64);
    assert!(!shares.take(&other, 1), "nothing is left");
    shares.give_back(&one, 64);
    assert_eq!(fill(&mut shares, &one), 56);
    assert_eq!(fill(&mut shares, &other), 8, "at once");
    // Whatever is given back is for the tenant below its share.
    shares.give_back(&one, 10);
    assert_eq!((fill(&mut shares, &one), fill(&mut shares, &other)), (2, 8));
    assert_eq!((shares.used_by(&one), shares.used_by(&other), shares.used()), (48, 16, 64));
    shares.give_back(&one, 1_000);
    shares.give_back(&other, 1_000);
    assert_eq!((shares.used(), shares.owners()), (0, 0), "nothing is kept of callers");
}

// I-105
#[test]
fn many_principals_of_one_tenant_are_one_tenant() {
    let mut shares = Shares::new(64);
    assert!(shares.take(&owner(1, 0), 1));
    let of_crowd: usize = (0..40).map(|number| fill(&mut shares, &owner(0, number))).sum();
    assert_eq!(of_crowd, 55);
    assert_eq!(fill(&mut shares, &owner(1, 0)), 8);
}

#[test]
fn principals_of_one_tenant_leave_each_other_room() {
    let mut shares = Shares::new(64);
    assert!(shares.take(&owner(0, 1), 1));
    assert_eq!(fill(&mut shares, &owner(0, 0)), 55);
    assert_eq!(fill(&mut shares, &owner(0, 1)), 8);
}

#[test]
fn a_tenant_has_its_floor_in_any_case() {
    let mut shares = Shares::new(100).with_floor(3);
    for tenant in 0..50 {
        assert!(fill(&mut shares, &owner(tenant, 0)) >= 3, "{tenant}");
    }
    assert!(shares.used() <= 100 + 50 * 3);
}

// I-105
#[test]
fn a_tenant_beyond_its_share_gives_up_its_own_and_never_that_of_another() {
    let mut shares = Shares::new(16);
    let (small, crowd) = (owner(0, 0), |principal| owner(1, principal));
    shares.add(&small, 2);
    for (principal, amount) in [(0, 3), (1, 6), (2, 5)] {
        shares.add(&crowd(principal), amount);
    }
    let givers = |shares: &Shares, of: &PrincipalKey| shares.givers(of, 1).collect::<Vec<_>>();
    let largest_first = [crowd(1), crowd(2), crowd(0)];
    assert_eq!(givers(&shares, &crowd(7)), largest_first);
    assert_eq!(givers(&shares, &small), largest_first);
    shares.give_back(&crowd(1), 6);
    shares.add(&small, 6);
    assert_eq!(givers(&shares, &small), std::slice::from_ref(&small), "both have their share");
}

#[test]
fn a_waiting_request_is_served_before_the_same_caller_comes_again() {
    let mut shares = Shares::new(1);
    let (one, other) = (owner(0, 0), owner(1, 0));
    assert!(shares.take(&one, 1));
    let first = shares.wait(&one, 1);
    shares.wait(&one, 2);
    shares.wait(&other, 3);
    assert!(shares.serve_next().is_none());
    shares.give_back(&one, 1);
    assert!(!shares.take(&one, 1), "its own request waits");
    assert_eq!(shares.serve_next().unwrap(), (one.clone(), 1));
    shares.cancel(&one, first);
    shares.give_back(&one, 1);
    assert_eq!(shares.serve_next().unwrap(), (other.clone(), 3), "by turns");
    shares.give_back(&other, 1);
    assert_eq!(shares.serve_next().unwrap(), (one.clone(), 2));
    shares.give_back(&one, 1);
    assert_eq!((shares.used(), shares.owners()), (0, 0));
}

/// One step of a run: a caller requests a part, one is given back, a request is cancelled.
#[derive(Debug, Clone)]
enum Step {
    Request(usize, usize),
    GiveBack(usize),
    Cancel(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0..4_usize, 0..5_usize).prop_map(|(tenant, principal)| Step::Request(tenant, principal)),
        3 => any::<usize>().prop_map(Step::GiveBack),
        1 => any::<usize>().prop_map(Step::Cancel),
    ];
    proptest::collection::vec(step, 1..400)
}

proptest! {
    // I-105: against a model that counts.
    #[test]
    fn parts_are_counted_and_the_tenant_that_holds_least_is_next(
        size in 1_usize..40,
        steps in steps(),
    ) {
        let mut shares = Shares::new(size);
        let mut held: Vec<PrincipalKey> = Vec::new();
        let mut waiting: Vec<(PrincipalKey, Ticket)> = Vec::new();
        for (number, step) in steps.into_iter().enumerate() {
            match step {
                Step::Request(tenant, principal) => {
                    let owner = owner(tenant, principal);
                    match shares.take(&owner, 1) {
                        true => held.push(owner),
                        false => waiting.push((owner.clone(), shares.wait(&owner, number))),
                    }
                }
                Step::GiveBack(at) if !held.is_empty() => {
                    let owner = held.swap_remove(at % held.len());
                    shares.give_back(&owner, 1);
                }
                Step::Cancel(at) if !waiting.is_empty() => {
                    let (owner, ticket) = waiting.swap_remove(at % waiting.len());
                    shares.cancel(&owner, ticket);
                }
                Step::GiveBack(_) | Step::Cancel(_) => {}
            }
            loop {
                let of = |tenant: &TenantId| held.iter().filter(|key| key.tenant == *tenant).count();
                let least = waiting.iter().map(|(owner, _)| of(&owner.tenant)).min();
                let Some((owner, _)) = shares.serve_next() else { break };
                prop_assert_eq!(Some(of(&owner.tenant)), least);
                let mut own = waiting.iter().enumerate().filter(|(_, waiter)| waiter.0 == owner);
                let oldest = own.by_ref().min_by_key(|(_, waiter)| waiter.1.0).map(|(at, _)| at);
                waiting.remove(oldest.unwrap());
                held.push(owner);
            }
            prop_assert!(shares.used() <= size);
            prop_assert_eq!(shares.used(), held.len());
            // Parts are left only where the reserve is kept.
            let is_left = shares.used() < size - size / RESERVED;
            prop_assert!(!is_left || waiting.is_empty());
        }
        for owner in held {
            shares.give_back(&owner, 1);
            while let Some((owner, _)) = shares.serve_next() {
                shares.give_back(&owner, 1);
            }
        }
        prop_assert_eq!((shares.used(), shares.owners()), (0, 0));
    }

    // I-105: however many requests each tenant has, and in whatever order parts are given back.
    #[test]
    fn tenants_with_waiting_requests_hold_the_same(
        size in 1_usize..40,
        principals in proptest::collection::vec(1_usize..9, 2..5),
        given_back in proptest::collection::vec(any::<usize>(), 1..200),
    ) {
        let mut shares = Shares::new(size);
        let wait = |shares: &mut Shares<()>, tenant: usize, requests: usize| {
            for request in 0..requests {
                shares.wait(&owner(tenant, request % principals[tenant]), ());
            }
        };
        for tenant in 0..principals.len() {
            wait(&mut shares, tenant, (tenant + 1) * 300);
        }
        let mut held = Vec::new();
        for at in given_back {
            while let Some((owner, ())) = shares.serve_next() {
                held.push(owner);
            }
            let mut of: HashMap<_, usize> = HashMap::new();
            held.iter().for_each(|key| *of.entry(key.tenant.clone()).or_default() += 1);
            let of = |tenant| of.get(&owner(tenant, 0).tenant).copied().unwrap_or_default();
            let counts: Vec<_> = (0..principals.len()).map(of).collect();
            let (most, least) = (counts.iter().max().unwrap(), counts.iter().min().unwrap());
            prop_assert!(most - least <= 1, "{:?}", counts);
            let owner = held.swap_remove(at % held.len());
            shares.give_back(&owner, 1);
        }
    }
}
