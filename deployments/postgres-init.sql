-- The Prefect server keeps its own database beside the history, and searches it by trigrams.
CREATE DATABASE prefect;
\connect prefect
CREATE EXTENSION IF NOT EXISTS pg_trgm;
