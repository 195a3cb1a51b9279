-- The Prefect server keeps its own database beside the history.
CREATE DATABASE prefect;
