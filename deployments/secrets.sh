#!/bin/sh
# Makes the secrets of docker-compose.yml in ./secrets, unless they are there. Run it in the project's root.
set -eu
mkdir -p secrets
chmod 700 secrets # nobody else comes in; the files themselves must be readable for uid 1000 of the containers
if [ -e secrets/postgres_password ]; then
  echo "secrets/postgres_password is there: nothing was changed"
  exit 0
fi
password=$(od -An -N24 -tx1 /dev/urandom | tr -d ' \n')
printf '%s' "$password" >secrets/postgres_password
printf '%s' "postgresql+psycopg://calmon:$password@postgres:5432/calmon" >secrets/calmon_store_url
printf '%s' "postgresql+asyncpg://calmon:$password@postgres:5432/prefect" >secrets/prefect_database_url
printf '%s' "calmon:$(od -An -N24 -tx1 /dev/urandom | tr -d ' \n')" >secrets/prefect_auth
chmod 444 secrets/postgres_password secrets/calmon_store_url secrets/prefect_database_url secrets/prefect_auth
echo "made secrets/postgres_password, secrets/calmon_store_url, secrets/prefect_database_url and secrets/prefect_auth"
