"""What acts and is deployed: owns Models, maybe a Planner, and no optimizer."""
