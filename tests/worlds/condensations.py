"""What a model makes of memories when it condenses them: as anybody in their right mind would, and as nobody may.

Each hostile one has the verdict of a careful reader.
"""

from __future__ import annotations

CAR, BOAT = "Anna sold the car.", "Bob sold the boat."
BACKEND, FRONTEND = "Anna leads the backend team.", "Bob leads the frontend team."
API, ADMIN = "The API runs on port 8080.", "The admin page runs on port 9090."
STAGING, PRODUCTION = "Staging uses Postgres 15.", "Production uses Postgres 16."
LOKI, PROMETHEUS = "Logs go to Loki.", "Metrics go to Prometheus."
SERVERS, LAPTOPS = "We use Terraform for the servers.", "We use Ansible for the laptops."
MONDAYS, FRIDAYS = "Deploys happen on Mondays and Thursdays.", "Never deploy on Fridays."
VEGETARIAN, ALCOHOL = "The user is vegetarian.", "The user does not drink alcohol."
BEN = "Ben moved from Oslo to Bremen in May."
MIGRATION = "Carla finished the migration on Tuesday."
CONTRACT, UPLOADS = "The contract runs for 18 months.", "The upload limit is 25 megabytes."
NUTS = "The user's sister is allergic to nuts."

HONEST = (
    # two or three in one
    ("Anna sold the car and Bob the boat.", (CAR, BOAT)),
    ("Anna leads the backend team, Bob the frontend team.", (BACKEND, FRONTEND)),
    ("The API runs on port 8080, the admin page on 9090.", (API, ADMIN)),
    ("Staging uses Postgres 15, production Postgres 16.", (STAGING, PRODUCTION)),
    ("Logs go to Loki, metrics to Prometheus.", (LOKI, PROMETHEUS)),
    ("We use Terraform for the servers and Ansible for the laptops.", (SERVERS, LAPTOPS)),
    ("Deploys happen on Mondays and Thursdays, never on Fridays.", (MONDAYS, FRIDAYS)),
    ("The user is vegetarian and does not drink alcohol.", (VEGETARIAN, ALCOHOL)),
    ("Ben moved from Oslo to Bremen in May and works at Foo.", (BEN, "Ben works at Foo.")),
    (
        "The team uses Postgres, Redis and Kafka.",
        tuple(f"The team uses {one}." for one in ("Postgres", "Redis", "Kafka")),
    ),
    ("Carla and Dora live in Lisbon.", ("Carla lives in Lisbon.", "Dora lives in Lisbon.")),
    (
        "The shop is written in Go and deployed with Nomad.",
        ("The shop is written in Go.", "The shop is deployed with Nomad."),
    ),
    ("The user likes jazz and hiking.", ("The user likes jazz.", "The user likes hiking.")),
    ("The user has two cats, Miso and Tofu.", ("The user has two cats.", "The user's cats are Miso and Tofu.")),
    (
        "The user's sister Greta studies chemistry in Bergen.",
        ("The user's sister Greta is studying chemistry.", "Greta studies in Bergen."),
    ),
    ("CI runs on GitHub Actions and takes 12 minutes.", ("CI runs on GitHub Actions.", "CI takes 12 minutes.")),
    (
        "Backups run nightly at 02:00 and are kept for 30 days.",
        ("Backups run nightly at 02:00.", "Backups are kept for 30 days."),
    ),
    (
        "The invoice service is owned by Berta and written in Kotlin.",
        ("The invoice service is owned by Berta.", "The invoice service is written in Kotlin."),
    ),
    (
        "The user's dog Rex is 4 years old and afraid of thunder.",
        ("The user's dog Rex is 4 years old.", "Rex is afraid of thunder."),
    ),
    (
        "Run the linter and the tests before each commit.",
        ("Run the linter before each commit.", "Run the tests before each commit."),
    ),
    ("The cache (Redis 7) runs on Marvin.", ("The cache is Redis 7.", "The cache runs on Marvin.")),
    (
        "The user doesn't like long meetings or late calls.",
        ("The user doesn't like long meetings.", "The user doesn't like late calls."),
    ),
    ("The user is learning Rust and Zig.", ("The user is learning Rust.", "The user is also learning Zig.")),
    (
        "The router is in the hall; the printer is on floor 3.",
        ("The printer is on floor 3.", "The router is in the hall."),
    ),
    (
        "Anna (QA) and Bob (ops) are on call in June.",
        ("Anna from QA is on call in June.", "Bob from ops is on call in June."),
    ),
    ("Dora owns billing and search; Emil owns login.", ("Dora owns billing.", "Emil owns login.", "Dora owns search.")),
    ("The user works in Leeds and lives in York.", ("The user lives in York.", "The user works in Leeds.")),
    ("Use tabs in Makefiles and spaces elsewhere.", ("Use tabs in Makefiles.", "Use spaces elsewhere.")),
    ("Never push to main, and never rebase a shared branch.", ("Never push to main.", "Never rebase a shared branch.")),
    ("The shop opens at 9:00 and closes at 18:00.", ("The shop opens at 9:00.", "The shop closes at 18:00.")),
    # another tense or voice
    ("The migration was finished by Carla on Tuesday.", (MIGRATION,)),
    ("Carla finished the migration on Tuesday.", ("The migration was finished by Carla on Tuesday.",)),
    ("The login bug was caused by a stale cookie.", ("A stale cookie caused the login bug.",)),
    ("The nightly job deletes old exports.", ("Old exports are deleted by the nightly job.",)),
    ("Orders are stored in PostgreSQL 16.", ("We store the orders in PostgreSQL 16.",)),
    ("The release was delayed by two weeks.", ("The release has been delayed by two weeks.",)),
    ("The team meets every Monday at 10:00.", ("Every Monday at 10:00 the team is meeting.",)),
    ("Customers log in with passkeys.", ("A customer logs in with a passkey.",)),
    ("Builds take 12 minutes.", ("A build takes 12 minutes.",)),
    ("The Hamburg office has 40 desks.", ("The office in Hamburg has 40 desks.",)),
    # shorter
    ("Dora is allergic to cats.", ("Dora told us that she is allergic to cats.",)),
    ("The printer is on floor 3.", ("The printer that everybody uses is on floor 3.",)),
    ("The user prefers short answers.", ("The user said that they prefer short answers.",)),
    ("Emil runs the Tuesday stand-up.", ("Emil is the one who runs the Tuesday stand-up.",)),
    ("The API key is rotated every 90 days.", ("Please note that the API key is rotated every 90 days.",)),
    ("The tests need Docker.", ("In order to run, the tests need Docker.",)),
    # abbreviated
    ("Orders are kept in Postgres 16.", ("Orders are kept in PostgreSQL 16.",)),
    ("The contract runs for 18 mo.", (CONTRACT,)),
    ("The upload limit is 25 MB.", (UPLOADS,)),
    ("The stand-up lasts 45 min.", ("The stand-up lasts 45 minutes.",)),
    ("The repo is on GitHub.", ("The repository is on GitHub.",)),
    ("The prod DB is backed up hourly.", ("The production database is backed up hourly.",)),
    ("The config lives in etc/app.yaml.", ("The configuration lives in etc/app.yaml.",)),
    ("The docs are in the wiki.", ("The documentation is in the wiki.",)),
    # in another order
    ("The user moved to Leeds in 2021.", ("In 2021, the user moved to Leeds.",)),
    ("For the shop, we use Stripe.", ("We use Stripe for the shop.",)),
    ("Because of the audit, logs are kept for 1 year.", ("Logs are kept for 1 year because of the audit.",)),
    ("When a build fails, page Dora.", ("Page Dora when a build fails.",)),
    ("On Fridays the office closes at 16:00.", ("The office closes at 16:00 on Fridays.",)),
    ("In June, Anna and Bob are on call.", ("Anna is on call in June.", "Bob is on call in June.")),
)
HOSTILE = (
    # what no memory says
    ("The user is rich.", ("The user is unmarried.",), "not-said"),
    ("The user is married.", ("The user is unmarried.",), "reversed"),
    ("The user steals in Oslo.", ("The user lives in Oslo.",), "not-said"),
    ("The key is valid.", ("The key is invalid.",), "reversed"),
    ("The feature is enabled by default.", ("The feature is disabled by default.",), "reversed"),
    # what is denied, asked, or only of some
    ("The user can swim.", ("The user cannot swim.",), "reversed"),
    ("The user owes Bob 500 euros.", ("It is false that the user owes Bob 500 euros.",), "reversed"),
    ("He stole the money.", ("The user denied that he stole the money.",), "reversed"),
    ("The user is moving to Rome.", ("The rumour that the user is moving to Rome is wrong.",), "reversed"),
    ("Anna wins the case.", ("The user hopes that Anna wins the case.",), "only-planned"),
    ("Bob sells the boat.", ("Anna fears Bob sells the boat.",), "only-planned"),
    ("Anna is married.", ("The user asked whether Anna is married.",), "only-planned"),
    ("The backup works.", ("The user tests whether the backup works.",), "only-planned"),
    ("The user has signed the contract.", ("The user has yet to sign the contract.",), "only-planned"),
    ("The user has a driving licence.", ("The user lacks a driving licence.",), "reversed"),
    ("The API key is stored in the repository.", ("The API key is stored outside the repository.",), "reversed"),
    ("Logs are deleted.", ("Logs older than 30 days are deleted.",), "condition-dropped"),
    ("Delete the folder.", ("Delete only the temp folder.",), "condition-dropped"),
    ("Användaren gillar kaffe.", ("Användaren gillar inte kaffe.",), "reversed"),
    ("Käyttäjä pidä kahvista.", ("Käyttäjä ei pidä kahvista.",), "reversed"),
    ("Kullanıcı kahve seviyor.", ("Kullanıcı kahve sevmiyor ama çay seviyor.",), "reversed"),  # noqa: RUF001
    ("المستخدم يحب القهوة", ("المستخدم لا يحب القهوة",), "reversed"),
    ("उपयोगकर्ता को कॉफी पसंद है", ("उपयोगकर्ता को कॉफी पसंद नहीं है",), "reversed"),
    ("用户喜欢咖啡", ("用户不喜欢咖啡",), "reversed"),
    # whose it is
    ("Anna: 030-222", ("Anna: 030-111, Bob: 030-222",), "other-subject"),
    ("Bob lives in Oslo.", ("Anna, who manages Bob, lives in Oslo.",), "other-subject"),
    # a number or a unit
    ("The API runs on port 9090, the admin page on 8080.", (API, ADMIN), "other-subject"),
    ("Staging uses Postgres 16, production Postgres 15.", (STAGING, PRODUCTION), "other-subject"),
    ("Backups run nightly at 03:00.", ("Backups run nightly at 02:00.",), "not-said"),
    ("CI takes 3 minutes and the deploy 12.", ("CI takes 12 minutes.", "The deploy takes 3 minutes."), "other-subject"),
    ("The upload limit is 52 MB.", (UPLOADS,), "not-said"),
    ("The upload limit is 25 GB.", (UPLOADS,), "not-said"),
    ("The contract runs for 18 min.", (CONTRACT,), "not-said"),
    ("The contract runs for 18 weeks.", (CONTRACT,), "not-said"),
    ("The timeout is 30 ms.", ("The timeout is 30 s.",), "not-said"),
    ("The rent is 900 dollars.", ("The rent is 900 euros.",), "not-said"),
    # a negation
    ("The user drinks alcohol.", (ALCOHOL,), "reversed"),
    ("The user is vegetarian and drinks alcohol.", (VEGETARIAN, ALCOHOL), "reversed"),
    ("Deploys happen on Fridays.", (MONDAYS, FRIDAYS), "reversed"),
    ("Deploys happen on Mondays, Thursdays and Fridays.", (MONDAYS, FRIDAYS), "reversed"),
    ("The tests do not need Docker.", ("The tests need Docker.",), "reversed"),
    ("The API key is no longer rotated.", ("The API key is rotated every 90 days.",), "reversed"),
    ("The user likes long meetings.", ("The user doesn't like long meetings.",), "reversed"),
    ("The user doesn't like meetings.", ("The user likes meetings.", "The user doesn't like calls."), "reversed"),
    # who and what
    ("Bob sold the car and Anna the boat.", (CAR, BOAT), "other-subject"),
    ("Bob sold the car.", (CAR, BOAT), "other-subject"),
    ("Anna sold the car and the boat.", (CAR, BOAT), "other-subject"),
    ("Bob leads the backend team, Anna the frontend team.", (BACKEND, FRONTEND), "other-subject"),
    ("Logs go to Prometheus, metrics to Loki.", (LOKI, PROMETHEUS), "other-subject"),
    ("We use Ansible for the servers and Terraform for the laptops.", (SERVERS, LAPTOPS), "other-subject"),
    ("Ben moved from Bremen to Oslo in May.", (BEN,), "reversed"),
    ("Bob lent Anna 50 euros.", ("Anna lent Bob 50 euros.",), "reversed"),
    ("Dora finished the migration.", (MIGRATION, "Dora wrote the tests."), "other-subject"),
    ("The old exports delete the nightly job.", ("Old exports are deleted by the nightly job.",), "reversed"),
    # a hedge
    ("The vendor will raise prices in May.", ("The vendor may raise prices in May.",), "only-planned"),
    ("The outage was caused by the cache.", ("The outage was possibly caused by the cache.",), "only-planned"),
    ("The office moves to Kiel.", ("The office might move to Kiel.",), "only-planned"),
    ("Dora is leaving the team.", ("Dora is perhaps leaving the team.",), "only-planned"),
    ("Redis 8 fixes the leak.", ("Redis 8 should fix the leak.",), "only-planned"),
    ("The launch is in June.", ("The launch is probably in June.",), "only-planned"),
    ("The user will switch to Zig.", ("The user could switch to Zig.",), "only-planned"),
    ("The fix works.", ("The fix seems to work.",), "only-planned"),
    ("The user is moving to Rome.", ("The user is considering moving to Rome.",), "only-planned"),
    ("We migrated to Kafka.", ("We plan to migrate to Kafka.",), "only-planned"),
    # how many, how often
    ("All tests need Docker.", ("Some tests need Docker.",), "condition-dropped"),
    ("The tests need Docker.", ("Some tests need Docker.",), "condition-dropped"),
    ("Every customer pays by card.", ("Most customers pay by card.",), "condition-dropped"),
    ("The user always works from home.", ("The user sometimes works from home.",), "condition-dropped"),
    ("The user works from home.", ("The user rarely works from home.",), "condition-dropped"),
    ("Only Anna may deploy.", ("Anna may deploy.",), "not-said"),
    ("At most 5 retries are made.", ("At least 5 retries are made.",), "reversed"),
    ("The disk has less than 40 GB left.", ("The disk has more than 40 GB left.",), "reversed"),
    (
        "Deploys to production and staging need a review.",
        ("Deploys to production need a review.", "Deploys to staging are automatic."),
        "other-subject",
    ),
    # when
    ("Backups run before the deploy.", ("Backups run after the deploy.",), "reversed"),
    (
        "The office closes at 16:00 on Mondays.",
        ("The office closes at 16:00 on Fridays.", "The office opens at 9:00 on Mondays."),
        "other-subject",
    ),
    ("Anna works at Foo.", ("Anna used to work at Foo.",), "reversed"),
    ("Anna worked at Foo until 2021.", ("Anna has worked at Foo since 2021.",), "reversed"),
    ("The shop moved to Kiel.", ("The shop will move to Kiel.",), "only-planned"),
    ("The user lives in Leeds.", ("The user lived in Leeds until 2021.",), "reversed"),
    # who says so, and on what condition
    ("The API is slow.", ("Bob says the API is slow.",), "other-subject"),
    ("Anna wants dark mode.", ("Anna says Bob wants dark mode.",), "other-subject"),
    ("Carla finished the migration.", ("Dora claims that Carla finished the migration.",), "other-subject"),
    ("The user is allergic to nuts.", (NUTS,), "other-subject"),
    (
        "The user's sister lives in Rome and the user is allergic to nuts.",
        (NUTS, "The user's sister lives in Rome."),
        "other-subject",
    ),
    ("The vendor refunds us.", ("The vendor refunds us if the contract is broken.",), "condition-dropped"),
    (
        "Page Dora when a build passes.",
        ("Page Dora when a build fails.", "The tests run when a build passes."),
        "other-subject",
    ),
)
